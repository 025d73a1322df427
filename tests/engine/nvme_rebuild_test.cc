// A manifest that is lost, damaged or too old: what the segments bring back, and what they do not.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/engine.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"
#include "tests/support/tier_engine.h"

namespace kvferry {
namespace {

using testing::KeyOf;
using testing::KeysOf;
using testing::NamespaceOf;
using testing::TierEngine;

constexpr std::uint32_t kBlockBytes = TierEngine::kBlockBytes;

// A segment holds 15 blocks, so 40 of them fill two and begin a third.
constexpr std::size_t kBlocks = 40;
constexpr std::size_t kBlocksOfFullSegments = 30;

class NvmeRebuildTest : public ::testing::TestWithParam<NvmeIo>, public TierEngine {
 protected:
  void SetUp() override { options.nvme.io = GetParam(); }
  std::string Manifest() const { return folder + "/drive/manifest"; }
  void LoseManifest() const { std::filesystem::remove_all(Manifest()); }
  void PutAndPersist(std::uint64_t first, std::size_t count) {
    Put(first, count);
    EXPECT_EQ(Persist(first, count).blocks_ready, count);
  }
};

TEST_P(NvmeRebuildTest, ALostManifestIsMadeFromTheSegments) {
  OpenEngine();
  PutAndPersist(0, kBlocks);
  CloseEngine();
  LoseManifest();

  OpenEngine();
  EXPECT_EQ(engine->Stats().nvme_store.blocks_found, kBlocks);
  EXPECT_EQ(engine->Stats().nvme_store.bytes_persisted, kBlocks * kBlockBytes);
  EXPECT_EQ(CountOf(0, kBlocks), kBlocks);
  PutAndPersist(0, kBlocks);
  CloseEngine();
  OpenEngine();
  EXPECT_EQ(CountOf(0, kBlocks), kBlocks);
}

// What was in segments that were not full only the manifest knew.
TEST_P(NvmeRebuildTest, AKilledProcessLeavesFullSegmentsOnly) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    OpenEngine();
    PutAndPersist(0, kBlocks);
    EXPECT_FALSE(Comes([] { return false; }, 2));  // Footers follow what they tell of.
    ::kill(::getpid(), HasFailure() ? SIGTERM : SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  LoseManifest();

  OpenEngine();
  EXPECT_EQ(CountOf(0, kBlocks), kBlocksOfFullSegments);
}

// Footers of segments that were open at a close are no more the last word once those go on.
TEST_P(NvmeRebuildTest, WhatIsErasedFromAnOpenSegmentDoesNotComeBack) {
  OpenEngine();
  PutAndPersist(0, 10);
  CloseEngine();
  OpenEngine();
  ASSERT_OK(Erase(KeysOf(0, 4)));
  PutAndPersist(100, 2);
  CloseEngine();
  LoseManifest();

  OpenEngine();
  EXPECT_EQ(CountOf(0, 4), 0U);
  EXPECT_EQ(CountOf(4, 6), 6U);
  EXPECT_EQ(CountOf(100, 2), 2U);
}

// Nobody asks for them between two restarts, so that nothing tells their namespace.
TEST_P(NvmeRebuildTest, WhatWasRebuiltIsThereAfterAnotherRestart) {
  OpenEngine();
  PutAndPersist(0, kBlocks);
  CloseEngine();
  LoseManifest();
  OpenEngine();
  CloseEngine();

  OpenEngine();
  EXPECT_EQ(engine->Stats().nvme_store.blocks_found, kBlocks);
  EXPECT_EQ(CountOf(0, kBlocks), kBlocks);
  CloseEngine();
  OpenEngine();
  EXPECT_EQ(CountOf(0, kBlocks), kBlocks);
}

TEST_P(NvmeRebuildTest, PersistedBlocksStillOutliveTheirSegments) {
  OpenEngine();
  PutAndPersist(0, kBlocks);
  CloseEngine();
  LoseManifest();
  OpenEngine();
  for (std::uint64_t round = 0; round < 80; ++round) {  // 80 MiB through a tier of 56.
    const std::uint64_t first = 1'000 + 16 * round;
    PutAndPersist(first, 16);
    const std::vector<BlockKey> keys = KeysOf(first, 16);
    EXPECT_OK(Await(engine->Unpersist({.in = space, .keys = keys}, *queue)).status);
  }

  EXPECT_GT(engine->Stats().nvme_store.segments_reused, 0U);
  EXPECT_EQ(CountOf(0, kBlocks), kBlocks);
}

// An erasure that has completed is in no footer.
TEST_P(NvmeRebuildTest, ErasedBlocksDoNotComeBack) {
  OpenEngine();
  PutAndPersist(0, kBlocks);
  ASSERT_OK(Erase(KeysOf(0, 20)));
  CloseEngine();
  LoseManifest();

  OpenEngine();
  EXPECT_EQ(CountOf(0, 20), 0U);
  EXPECT_EQ(CountOf(20, 20), 20U);
}

TEST_P(NvmeRebuildTest, AnErasedNamespaceDoesNotComeBack) {
  OpenEngine();
  PutAndPersist(0, kBlocks);
  ASSERT_OK(engine->EraseNamespace(space));
  PutAndPersist(100, kBlocks);
  CloseEngine();
  LoseManifest();

  OpenEngine();
  EXPECT_EQ(CountOf(0, kBlocks), 0U);
  EXPECT_EQ(CountOf(100, kBlocks), kBlocks);
}

// Whose they are is not known any more, so they go with any namespace of their size.
TEST_P(NvmeRebuildTest, AnErasureAfterTheRebuildTakesWhatNobodyHasAskedFor) {
  OpenEngine();
  PutAndPersist(0, kBlocks);
  CloseEngine();
  LoseManifest();
  OpenEngine();
  ASSERT_OK(engine->EraseNamespace(space));
  EXPECT_EQ(CountOf(0, kBlocks), 0U);
  CloseEngine();

  OpenEngine();
  EXPECT_EQ(CountOf(0, kBlocks), 0U);
  CloseEngine();
  LoseManifest();
  OpenEngine();
  EXPECT_EQ(CountOf(0, kBlocks), 0U);
}

// The key alone would not do: a block of another size is another namespace's.
TEST_P(NvmeRebuildTest, ANamespaceOfOtherBlocksTakesNothingOver) {
  OpenEngine();
  PutAndPersist(0, kBlocks);
  CloseEngine();
  LoseManifest();
  OpenEngine();
  const auto other = engine->AddNamespace(NamespaceOf("other"), {.block_bytes = kBlockBytes / 2});
  ASSERT_OK(other);
  const std::vector<BlockKey> keys = KeysOf(0, 1);

  EXPECT_EQ(engine->Match(*other, keys).blocks(), 0U);
  EXPECT_EQ(CountOf(0, kBlocks), kBlocks);
}

TEST_P(NvmeRebuildTest, ADamagedManifestIsPutAside) {
  OpenEngine();
  PutAndPersist(0, kBlocks);
  CloseEngine();
  std::ofstream(Manifest() + "/CURRENT", std::ios::trunc) << "nothing";

  OpenEngine();
  EXPECT_EQ(CountOf(0, kBlocks), kBlocks);
  EXPECT_TRUE(std::filesystem::exists(Manifest() + ".damaged/CURRENT"));
}

// Opens well, and fails when its rows are read.
TEST_P(NvmeRebuildTest, ATableThatCannotBeReadIsFoundOut) {
  OpenEngine();
  PutAndPersist(0, kBlocks);
  CloseEngine();
  OpenEngine();  // What the log held goes into a table.
  CloseEngine();
  std::size_t damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Manifest())) {
    if (entry.path().extension() == ".sst") {
      std::fstream table(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      table.seekp(40);
      table << std::string(200, 'x');
      ++damaged;
    }
  }
  ASSERT_GT(damaged, 0U);

  options.nvme.probe_ms = 100;
  OpenEngine();
  EXPECT_EQ(CountOf(0, kBlocks), kBlocks);
  EXPECT_TRUE(std::filesystem::exists(Manifest() + ".damaged"));
}

// Its rows are of lives that are over: new ones would be begun under numbers that were given.
TEST_P(NvmeRebuildTest, AManifestOlderThanTheSegmentsIsPutAside) {
  OpenEngine();
  PutAndPersist(0, 20);
  CloseEngine();
  const std::string copy = folder + "/copy";
  std::filesystem::copy(Manifest(), copy, std::filesystem::copy_options::recursive);
  OpenEngine();
  ASSERT_OK(Erase(KeysOf(0, 20)));
  PutAndPersist(100, 100);
  CloseEngine();
  LoseManifest();
  std::filesystem::rename(copy, Manifest());

  OpenEngine();
  EXPECT_EQ(CountOf(0, 20), 0U);
  EXPECT_EQ(CountOf(100, 100), 100U);
  EXPECT_TRUE(std::filesystem::exists(Manifest() + ".damaged"));
}

INSTANTIATE_TEST_SUITE_P(Rings,
                         NvmeRebuildTest,
                         ::testing::Values(NvmeIo::kAuto, NvmeIo::kThreads),
                         [](const auto& io) {
                           return io.param == NvmeIo::kAuto ? "Auto" : "Threads";
                         });

}  // namespace
}  // namespace kvferry
