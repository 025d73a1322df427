// DriveSet takes no folder, file or drive that is not this store's own, and says why.
#include <sys/stat.h>

#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/drive_samples.h"
#include "tiers/nvme/drive_set.h"

namespace kvferry::tiers {
namespace {

using testing::BlocksFileIn;
using testing::Overwrite;
using testing::ReadBack;
using testing::Says;
using testing::SmallStore;

using Opened = Result<std::unique_ptr<DriveSet>>;

using DriveSetRefusalTest = testing::DriveSetTest;

TEST_F(DriveSetRefusalTest, IsRefusedWithoutDrivesCapacityOrRoomForBlocks) {
  EXPECT_STATUS(DriveSet::Open({}).status(), StatusCode::kInvalidArgument);
  DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  options.capacity_bytes = 0;
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);
  options.capacity_bytes = 2 * kMiB;
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);
  options = SmallStore({folder_ / "a"}, 2);
  options.block_bytes_max = kMiB;
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(BlocksFileIn(folder_ / "a")));
  const Status parent = DriveSet::Open(SmallStore({folder_ / "no/a"}, 2)).status();
  EXPECT_STATUS(parent, StatusCode::kIoError);
  EXPECT_TRUE(Says(parent, "parent folder")) << parent.ToString();
}

// A folder where a file system was mounted looks like a drive for a new store.
TEST_F(DriveSetRefusalTest, MakesNoStoreWhereACertainOneMustBe) {
  DriveSetOptions options = SmallStore({folder_ / "a", folder_ / "b"}, 2);
  options.must_be = MakeStore(options);
  EXPECT_OK(DriveSet::Open(options).status());

  std::filesystem::rename(folder_ / "a", folder_ / "elsewhere");
  const Status gone = DriveSet::Open(options).status();
  EXPECT_STATUS(gone, StatusCode::kUnavailable);
  EXPECT_TRUE(Says(gone, folder_ / "a") && Says(gone, "mounted")) << gone.ToString();
  EXPECT_FALSE(std::filesystem::exists(BlocksFileIn(folder_ / "a")));

  MakeStore(SmallStore({folder_ / "a"}, 2));
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kUnavailable);
  std::filesystem::remove_all(folder_ / "a");
  std::filesystem::rename(folder_ / "elsewhere", folder_ / "a");
  EXPECT_OK(DriveSet::Open(options).status());
}

TEST_F(DriveSetRefusalTest, TakesNoFileThatIsNotItsOwnAlone) {
  const DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  MakeStore(options);
  const std::string file = BlocksFileIn(folder_ / "a");

  ASSERT_EQ(::chmod(file.c_str(), 0620), 0);
  Status refused = DriveSet::Open(options).status();
  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(refused, file) && Says(refused, "chmod 0600")) << refused.ToString();
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);

  ASSERT_EQ(::link(file.c_str(), (folder_ / "other").c_str()), 0);
  refused = DriveSet::Open(options).status();
  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(refused, "2 names")) << refused.ToString();
  ASSERT_EQ(::unlink((folder_ / "other").c_str()), 0);

  ASSERT_EQ(::rename(file.c_str(), (folder_ / "moved").c_str()), 0);
  std::filesystem::create_symlink(folder_ / "moved", file);
  refused = DriveSet::Open(options).status();
  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(refused, "is a link")) << refused.ToString();
  EXPECT_STATUS(DriveSet::OpenForReading(options.paths).status(), StatusCode::kInvalidArgument);
  ASSERT_EQ(::unlink(file.c_str()), 0);

  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);
  EXPECT_STATUS(DriveSet::OpenForReading(options.paths).status(), StatusCode::kInvalidArgument);
  ASSERT_EQ(::unlink(file.c_str()), 0);
  std::filesystem::create_directory(file);
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);
}

TEST_F(DriveSetRefusalTest, TakesNoFolderThatIsNotItsOwnAlone) {
  const DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  MakeStore(options);
  ASSERT_EQ(::chmod((folder_ / "a").c_str(), 0750), 0);
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);
  ASSERT_EQ(::chmod((folder_ / "a").c_str(), 0700), 0);
  std::filesystem::create_directory_symlink(folder_ / "a", folder_ / "link");
  EXPECT_STATUS(DriveSet::Open(SmallStore({folder_ / "link"}, 2)).status(),
                StatusCode::kInvalidArgument);
  EXPECT_STATUS(DriveSet::Open(SmallStore({BlocksFileIn(folder_ / "a")}, 2)).status(),
                StatusCode::kInvalidArgument);
  EXPECT_OK(DriveSet::Open(options).status());
}

TEST_F(DriveSetRefusalTest, TakesNothingOfAnotherUser) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a file away";
  }
  const DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  MakeStore(options);
  ASSERT_EQ(::chown(BlocksFileIn(folder_ / "a").c_str(), 1, 1), 0);
  const Status refused = DriveSet::Open(options).status();
  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(refused, "belongs to user 1")) << refused.ToString();
  ASSERT_EQ(::chown(BlocksFileIn(folder_ / "a").c_str(), 0, 0), 0);
  ASSERT_EQ(::chown((folder_ / "a").c_str(), 1, 1), 0);
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);
}

TEST_F(DriveSetRefusalTest, TellsAFileThatWasCut) {
  const DriveSetOptions options = SmallStore({folder_ / "a"}, 4);
  MakeStore(options);
  for (const off_t size : {5'242'879, 70'000}) {
    ASSERT_EQ(::truncate(BlocksFileIn(folder_ / "a").c_str(), size), 0);
    const Status refused = DriveSet::Open(options).status();
    EXPECT_STATUS(refused, StatusCode::kDataLoss);
    EXPECT_TRUE(Says(refused, "cut short")) << refused.ToString();
    EXPECT_STATUS(DriveSet::OpenForReading(options.paths).status(), StatusCode::kDataLoss);
  }
}

TEST_F(DriveSetRefusalTest, TakesNoDriveTooManyTooFewOrOfAnotherStore) {
  MakeStore(SmallStore({folder_ / "a", folder_ / "b"}, 2));
  MakeStore(SmallStore({folder_ / "x", folder_ / "y"}, 2));
  const auto refused = [this](const std::vector<std::string>& names) {
    std::vector<std::string> paths;
    paths.reserve(names.size());
    for (const std::string& name : names) {
      paths.push_back(folder_ / name);
    }
    Status status = DriveSet::Open(SmallStore(paths, 2)).status();
    EXPECT_STATUS(status, StatusCode::kInvalidArgument);
    return status;
  };
  EXPECT_TRUE(Says(refused({"a"}), "has 2 drives, but 1"));
  EXPECT_TRUE(Says(refused({"a", "y"}), "it is of store"));
  EXPECT_TRUE(Says(refused({"a", "b", "blank"}), "holds no store"));
  EXPECT_TRUE(Says(refused({"a", "blank"}), "holds no store"));
  std::filesystem::copy(folder_ / "a", folder_ / "copied");
  ASSERT_EQ(::chmod((folder_ / "copied").c_str(), 0700), 0);
  EXPECT_TRUE(Says(refused({"a", "copied"}), "copy of the other"));
  EXPECT_TRUE(Says(refused({"a", "b", "copied"}), "copy of the other"));
  EXPECT_OK(DriveSet::Open(SmallStore({folder_ / "a", folder_ / "b"}, 2)).status());
}

TEST_F(DriveSetRefusalTest, IsRefusedWithoutTwoCopiesThatAgree) {
  const DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  MakeStore(options);
  const std::string file = BlocksFileIn(folder_ / "a");
  for (std::size_t copy = 0; copy < 3; ++copy) {
    Overwrite(file, SuperblockOffset(copy), std::string(4096, '\0'));
  }
  const std::string before = ReadBack(file, 0, kMiB);
  const Status refused = DriveSet::Open(options).status();
  EXPECT_STATUS(refused, StatusCode::kDataLoss);
  EXPECT_TRUE(Says(refused, file) && Says(refused, "remove what is in the folder"))
      << refused.ToString();
  EXPECT_EQ(ReadBack(file, 0, kMiB), before);
}

TEST_F(DriveSetRefusalTest, MakesItsStoreInAFileOnlyIfAllOfThatIsBlank) {
  const DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  MakeStore(options);
  const std::string file = BlocksFileIn(folder_ / "a");
  ASSERT_EQ(::truncate(file.c_str(), 0), 0);
  EXPECT_OK(DriveSet::Open(options).status());
  Overwrite(file, 0, std::string(kMiB, '\0'));
  Opened opened = DriveSet::Open(options);
  ASSERT_OK(opened.status());
  EXPECT_TRUE((*opened)->is_new());
  (*opened).reset();

  Overwrite(file, 0, std::string(kMiB, '\0'));
  Overwrite(file, 3 * kMiB - 1, "x");
  const Status refused = DriveSet::Open(options).status();
  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(refused, "holds something")) << refused.ToString();
  Overwrite(file, 100, "something else");
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvferry::tiers
