// What is done to the files of an open store, on which reads and writes go on well: it is noticed,
// nothing is said to be durable that is not, and the tier comes back.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/engine.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"
#include "tests/support/tier_engine.h"

namespace kvferry {
namespace {

using testing::KeysOf;
using testing::TierEngine;

constexpr int kSecondsToNotice = 5;
constexpr int kSecondsToComeBack = 10;
// A segment holds 15 blocks, so 40 of them fill two and begin a third.
constexpr std::size_t kBlocks = 40;
constexpr std::size_t kBlocksOfFullSegments = 30;

class NvmeLostFilesTest : public ::testing::Test, public TierEngine {
 protected:
  void SetUp() override {
    options.nvme.probe_ms = 200;  // And it looks as often.
    OpenEngine();
    Put(0, kBlocks);
    ASSERT_EQ(Persist(0, kBlocks).blocks_ready, kBlocks);
  }
  std::string Drive() const { return folder + "/drive"; }
  std::string Manifest() const { return Drive() + "/manifest"; }

  // The tier goes off and says so, with this file and these words.
  void ExpectNoticed(const std::string& path, const std::string& words) {
    std::string reason;
    EXPECT_TRUE(Comes(
        [&] {
          const NvmeStats stats = engine->Stats().nvme_store;
          reason = stats.times_off > 0 ? stats.off_reason : "";
          return !reason.empty();
        },
        kSecondsToNotice));
    EXPECT_NE(reason.find(path), std::string::npos) << reason;
    EXPECT_NE(reason.find(words), std::string::npos) << reason;
  }
  bool IsOn() const {
    const NvmeStats stats = engine->Stats().nvme_store;
    return stats.is_on && stats.is_scanned;
  }
  // It is on again, and what is persisted outlives the engine.
  void ExpectBack() {
    ASSERT_TRUE(Comes([this] { return IsOn(); }, kSecondsToComeBack));
    EXPECT_EQ(engine->Stats().nvme_store.off_reason, "");
    Put(5'000, kBlocks);
    EXPECT_EQ(Persist(5'000, kBlocks).blocks_ready, kBlocks);
    found_ = CountOnDrive();
    CloseEngine();
    OpenEngine();
    EXPECT_EQ(CountOf(5'000, kBlocks), kBlocks);
    EXPECT_EQ(CountOf(0, kBlocks), found_);
  }
  // Of those that were persisted first.
  std::size_t CountOnDrive() {
    FloodHost(10'000);
    return CountOf(0, kBlocks);
  }

  std::size_t found_ = 0;
};

TEST_F(NvmeLostFilesTest, ADeletedFileIsNoticedAndAnotherStoreMade) {
  std::filesystem::remove(DataFile());
  ExpectNoticed(DataFile(), "was deleted");
  // Off, or over another store by now: where it says durable, that holds.
  ExpectBack();
  EXPECT_EQ(found_, 0U);
}

TEST_F(NvmeLostFilesTest, APersistThatWaitedIsNotOkWithoutItsBlocks) {
  std::filesystem::remove(DataFile());
  ExpectNoticed(DataFile(), "was deleted");
  const Completion done = Persist(0, kBlocks);
  ASSERT_TRUE(Comes([this] { return IsOn(); }, kSecondsToComeBack));
  CloseEngine();
  OpenEngine();
  EXPECT_GE(CountOf(0, kBlocks), done.blocks_ready);
}

TEST_F(NvmeLostFilesTest, ADeletedFolderIsNoticedAndAnotherStoreMade) {
  std::filesystem::remove_all(Drive());
  ExpectNoticed(Drive(), "was deleted");
  ExpectBack();
  EXPECT_EQ(found_, 0U);
}

// Also where the engine has written to it since.
TEST_F(NvmeLostFilesTest, AFileCutToNothingIsMadeAnew) {
  std::filesystem::resize_file(DataFile(), 0);
  std::ofstream(DataFile(), std::ios::in | std::ios::binary).seekp(3 << 20) << "a late write";
  ExpectNoticed(DataFile(), "was cut short");
  ExpectBack();
  EXPECT_EQ(found_, 0U);
}

// Its superblocks say how long it was, so that it is not taken for a store.
TEST_F(NvmeLostFilesTest, AFileCutShortKeepsTheTierOffUntilItIsMended) {
  const auto size_bytes = std::filesystem::file_size(DataFile());
  std::filesystem::resize_file(DataFile(), 2 << 20);  // In the first segment's place.
  ExpectNoticed(DataFile(), "was cut short");
  EXPECT_FALSE(Comes([this] { return IsOn(); }, 1));
  EXPECT_EQ(Persist(0, 1).status.code(), StatusCode::kUnavailable);
  std::filesystem::resize_file(DataFile(), size_bytes);
  ASSERT_TRUE(Comes([this] { return IsOn(); }, kSecondsToComeBack));
  EXPECT_LT(CountOnDrive(), kBlocks);
  Put(5'000, 1);
  EXPECT_EQ(Persist(5'000, 1).blocks_ready, 1U);
}

// What comes back is what footers tell; never what was erased.
TEST_F(NvmeLostFilesTest, ADeletedManifestIsNoticedAndMadeFromTheSegments) {
  ASSERT_OK(Erase(KeysOf(0, 5)));
  std::filesystem::remove_all(Manifest());
  ExpectNoticed(Manifest(), "was deleted");
  ASSERT_TRUE(Comes([this] { return IsOn(); }, kSecondsToComeBack));
  FloodHost(10'000);
  EXPECT_EQ(CountOf(0, 5), 0U);
  EXPECT_LE(CountOf(5, kBlocks), kBlocksOfFullSegments - 5);
  ExpectBack();
}

TEST_F(NvmeLostFilesTest, AManifestWithoutItsFilesIsNoticed) {
  for (const auto& entry : std::filesystem::directory_iterator(Manifest())) {
    std::filesystem::remove(entry.path());
  }
  ExpectNoticed(Manifest(), "was deleted");
  ExpectBack();
}

TEST_F(NvmeLostFilesTest, AFolderThatWasMovedIsWaitedForAndComesBackWithItsBlocks) {
  std::filesystem::rename(Drive(), folder + "/elsewhere");
  ExpectNoticed(Drive(), "is not there any more");
  // Some attempts make nothing in its place.
  EXPECT_FALSE(Comes([this] { return IsOn(); }, 1));
  EXPECT_FALSE(std::filesystem::exists(Drive()));
  EXPECT_EQ(Persist(0, 1).status.code(), StatusCode::kUnavailable);
  std::filesystem::rename(folder + "/elsewhere", Drive());
  ExpectBack();
  EXPECT_EQ(found_, kBlocks);
}

TEST_F(NvmeLostFilesTest, AFileThatWasMovedIsWaitedForAndComesBackWithItsBlocks) {
  std::filesystem::rename(DataFile(), folder + "/elsewhere");
  ExpectNoticed(DataFile(), "is not there any more");
  EXPECT_FALSE(Comes([this] { return IsOn(); }, 1));
  EXPECT_FALSE(std::filesystem::exists(DataFile()));
  std::filesystem::rename(folder + "/elsewhere", DataFile());
  ExpectBack();
  EXPECT_EQ(found_, kBlocks);
}

TEST_F(NvmeLostFilesTest, AManifestThatWasMovedIsWaitedForAndComesBackWithItsRows) {
  std::filesystem::rename(Manifest(), folder + "/elsewhere");
  ExpectNoticed(Manifest(), "is not there any more");
  EXPECT_FALSE(Comes([this] { return IsOn(); }, 1));
  EXPECT_FALSE(std::filesystem::exists(Manifest()));
  std::filesystem::rename(folder + "/elsewhere", Manifest());
  ExpectBack();
  EXPECT_EQ(found_, kBlocks);
}

// Nothing else makes the tier go off.
TEST_F(NvmeLostFilesTest, AStoreThatIsLeftAloneStaysOn) {
  EXPECT_FALSE(Comes([this] { return engine->Stats().nvme_store.times_off > 0; }, 2));
  EXPECT_EQ(engine->Stats().nvme_store.off_reason, "");
}

}  // namespace
}  // namespace kvferry
