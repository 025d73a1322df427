// StoreWatch tells what was done to the files of an open store, and is quiet about everything else.
#include "tiers/nvme/store_watch.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/drive_samples.h"

namespace kvferry::tiers {
namespace {

using testing::BlocksFileIn;
using testing::DriveSetTest;
using testing::SmallStore;

// A store on two drives, with a folder that looks as a manifest does.
class StoreWatchTest : public DriveSetTest {
 protected:
  void SetUp() override {
    auto drives = DriveSet::Open(SmallStore({folder_ / "a", folder_ / "b"}, 8));
    ASSERT_OK(drives);
    drives_ = std::move(*drives);
    std::filesystem::create_directory(manifest());
    std::ofstream(manifest() + "/CURRENT") << "MANIFEST-000005";
    std::ofstream(manifest() + "/000004.log") << "rows";
    auto watch = StoreWatch::Begin(*drives_, manifest());
    ASSERT_OK(watch);
    watch_ = std::move(*watch);
    ASSERT_EQ(watch_->Look().fate, StoreFate::kThere) << watch_->Look().what;
  }
  std::string manifest() const { return folder_ / "a" + "/manifest"; }
  void Expect(StoreFate fate, const std::string& path, const std::string& what) {
    const StoreWatch::Finding found = watch_->Look();
    EXPECT_EQ(found.fate, fate);
    EXPECT_NE(found.what.find(path), std::string::npos) << found.what;
    EXPECT_NE(found.what.find(what), std::string::npos) << found.what;
  }

  std::unique_ptr<DriveSet> drives_;
  std::optional<StoreWatch> watch_;
};

TEST_F(StoreWatchTest, TellsADeletedFile) {
  std::filesystem::remove(BlocksFileIn(folder_ / "b"));
  Expect(StoreFate::kGone, BlocksFileIn(folder_ / "b"), "was deleted");
}

TEST_F(StoreWatchTest, TellsAReplacedFile) {
  std::ofstream(folder_ / "other") << "something";
  std::filesystem::rename(folder_ / "other", BlocksFileIn(folder_ / "b"));
  Expect(StoreFate::kGone, BlocksFileIn(folder_ / "b"), "was replaced");
}

TEST_F(StoreWatchTest, TellsAFileThatWasCutShort) {
  const std::string path = BlocksFileIn(folder_ / "b");
  const auto size_bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size_bytes - 1);
  Expect(StoreFate::kCut, path, "was cut short");
  std::filesystem::resize_file(path, size_bytes + 1);
  EXPECT_EQ(watch_->Look().fate, StoreFate::kThere);
}

TEST_F(StoreWatchTest, TellsADeletedFolder) {
  std::filesystem::remove_all(folder_ / "b");
  Expect(StoreFate::kGone, folder_ / "b", "was deleted");
}

TEST_F(StoreWatchTest, TellsAFileThatWasMoved) {
  std::filesystem::rename(BlocksFileIn(folder_ / "b"), folder_ / "elsewhere");
  Expect(StoreFate::kMoved, BlocksFileIn(folder_ / "b"), "is not there any more");
}

TEST_F(StoreWatchTest, TellsAFolderThatWasMovedAndWhenItIsBack) {
  std::filesystem::rename(folder_ / "b", folder_ / "elsewhere");
  Expect(StoreFate::kMoved, folder_ / "b", "is not there any more");
  std::filesystem::create_directory(folder_ / "b");
  Expect(StoreFate::kMoved, folder_ / "b", "is something else by now");
  std::filesystem::remove(folder_ / "b");
  std::filesystem::rename(folder_ / "elsewhere", folder_ / "b");
  EXPECT_EQ(watch_->Look().fate, StoreFate::kThere);
}

TEST_F(StoreWatchTest, SaysDeletedWhereOneFileWasMovedAndAnotherDeleted) {
  std::filesystem::rename(folder_ / "a", folder_ / "elsewhere");
  std::filesystem::remove(BlocksFileIn(folder_ / "b"));
  Expect(StoreFate::kGone, BlocksFileIn(folder_ / "b"), "was deleted");
}

TEST_F(StoreWatchTest, TellsAManifestThatWasDeletedInWholeOrInPart) {
  std::filesystem::remove(manifest() + "/000004.log");
  Expect(StoreFate::kGone, manifest(), "has lost its log");
  std::filesystem::remove(manifest() + "/CURRENT");
  Expect(StoreFate::kGone, manifest() + "/CURRENT", "was deleted");
  std::filesystem::remove_all(manifest());
  Expect(StoreFate::kGone, manifest(), "was deleted");
}

// The engine's user may work in other folders, and others may look on.
TEST_F(StoreWatchTest, IsQuietAboutWhatDoesNoHarm) {
  std::ofstream(folder_ / "a" + "/note") << "something";
  std::filesystem::rename(manifest() + "/000004.log", manifest() + "/000009.log");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ / "b");
  EXPECT_EQ(watch_->Look().fate, StoreFate::kThere);
  std::filesystem::current_path(before);
}

// Whoever waits for the store to be closed must not wait for its watch.
TEST_F(StoreWatchTest, HoldsNoLock) {
  drives_.reset();
  EXPECT_OK(DriveSet::Open(SmallStore({folder_ / "a", folder_ / "b"}, 8)));
}

}  // namespace
}  // namespace kvferry::tiers
