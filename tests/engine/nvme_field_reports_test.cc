// What went wrong in other stores' disk tiers, tried on this one; the number is the report's.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/engine.h"

#include "base/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"
#include "tests/support/tier_engine.h"

namespace kvferry {
namespace {

using testing::BytesOf;
using testing::KeysOf;
using testing::TierEngine;

constexpr std::uint64_t kMiB = 1 << 20;

// What the folder takes of its drive.
std::uint64_t AllocatedBytes(const std::string& folder) {
  std::uint64_t sum = 0;
  std::error_code gone;  // The manifest's files come and go.
  for (auto at = std::filesystem::recursive_directory_iterator(folder, gone);
       at != std::filesystem::recursive_directory_iterator(); at.increment(gone)) {
    std::error_code error;
    const std::uint64_t size = at->is_regular_file(error) ? at->file_size(error) : 0;
    sum += error ? 0 : size;
  }
  return sum;
}

std::uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

class NvmeFieldReportsTest : public ::testing::Test, public TierEngine {
 protected:
  // Runs `work` in a process of its own, which it may end in any way; how it ended, as waitpid
  // says. It is killed after ten seconds.
  template <class Work>
  static int InAChild(const Work& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10 * kSlowdown);
      work();
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  static constexpr unsigned kSlowdown = testing::kIsSanitized ? 10 : 1;

  // Where the bytes of the block lie in the data file; npos if nowhere.
  static std::size_t PlaceOf(std::uint64_t number, const std::string& file) {
    const std::vector<std::byte> bytes = BytesOf(number, kBlockBytes);
    for (std::size_t at = 0; at + kBlockBytes <= file.size(); at += 4096) {
      if (std::memcmp(file.data() + at, bytes.data(), kBlockBytes) == 0) {
        return at;
      }
    }
    return std::string::npos;
  }
  std::string ReadDataFile() const {
    std::ifstream file(DataFile(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static void Write(const std::string& path, std::size_t offset, const std::string& bytes) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    EXPECT_TRUE(file.good()) << path;
  }
};

// B007: a staging pool that ran out in the middle of a batch gave buffers that nobody had filled.
TEST_F(NvmeFieldReportsTest, B007ABatchThatOutgrowsTheHostHasNoHitsWithoutBytes) {
  options.host.bytes = 2 * kMiB;  // 32 blocks.
  OpenEngine();
  for (std::uint64_t first = 0; first < 128; first += 16) {
    Put(first, 16);
    ASSERT_EQ(Persist(first, 16).blocks_ready, 16U);
  }
  const std::vector<BlockKey> keys = KeysOf(0, 128);
  const Completion done = Await(engine->Prefetch({.in = space, .keys = keys}, *queue));
  EXPECT_LE(done.blocks_ready, 128U);
  EXPECT_EQ(CountOf(0, 128), 128U);  // Get compares the bytes.
}

// B009: a prefix was pushed out before all of it was written down, and came back in part.
TEST_F(NvmeFieldReportsTest, B009WhatAFloodPushesOutIsAMissOrWhole) {
  options.host.bytes = 40 * kBlockBytes;
  OpenEngine();
  Put(0, 500);
  const std::size_t found = CountOf(0, 500);
  const EngineStats stats = engine->Stats();
  EXPECT_GE(found + stats.offloads_skipped + stats.nvme.evictions, 500U);
}

// B048, B151: a truncated file ended the one thread that reads.
TEST_F(NvmeFieldReportsTest, B048ReadsOfATruncatedFileAllEndAndLaterOnesWork) {
  OpenEngine();
  Put(0, 64);
  ASSERT_EQ(Persist(0, 64).blocks_ready, 64U);
  FloodHost(1'000);
  const std::uint64_t size = std::filesystem::file_size(DataFile());
  std::uint64_t next = 10'000;
  for (const std::uint64_t left : {size / 2, std::uint64_t{1} * kMiB + 512, std::uint64_t{0}}) {
    std::filesystem::resize_file(DataFile(), left);
    EXPECT_LE(CountOf(0, 64), 64U);
    FloodHost(next += 1'000);
  }

  // It is written to again, which makes it long again.
  ASSERT_TRUE(Comes(
      [this] {
        Put(2'000, 4);
        const bool is_there = Persist(2'000, 4).blocks_ready == 4;
        return is_there;
      },
      30));
  FloodHost(3'000);
  EXPECT_EQ(CountOf(2'000, 4), 4U);
}

// B061: 460 GB on the drive with a limit of 250.
TEST_F(NvmeFieldReportsTest, B061TheDriveHoldsNoMoreThanTheLimit) {
  options.nvme.capacity_bytes = 32 * kMiB;
  OpenEngine();
  std::uint64_t most = 0;
  for (std::uint64_t first = 0; first < 4'096; first += 32) {  // 256 MiB
    Put(first, 32);
    EXPECT_OK(Persist(first, 32).status);
    EXPECT_OK(Await(engine->Unpersist({.in = space, .keys = KeysOf(first, 32)}, *queue)).status);
    most = std::max(most, AllocatedBytes(folder));
  }
  EXPECT_GT(engine->Stats().nvme_store.segments_reused, 100U);
  EXPECT_LE(most, options.nvme.capacity_bytes + options.nvme.segment_bytes);
}

// B063: the pool took twice the memory that was asked for.
TEST_F(NvmeFieldReportsTest, B063MemoryIsWhatWasAskedForAndAFixedCost) {
  if (testing::kIsSanitized) {
    GTEST_SKIP() << "a sanitizer's own memory cannot be told from the engine's";
  }
  constexpr std::uint64_t kPool = 64 * kMiB;
  constexpr std::uint64_t kFixed = 48 * kMiB;  // docs/engine.md: buffers, rings, RocksDB.
  options.host.bytes = kPool;
  options.host.is_populated = true;
  options.nvme.capacity_bytes = 256 * kMiB;
  const int status = InAChild([&] {
    const std::uint64_t before = ResidentBytes();
    OpenEngine();
    Put(0, 3'000);
    EXPECT_EQ(Persist(2'900, 100).blocks_ready, 100U);
    EXPECT_LE(ResidentBytes() - before, kPool * 105 / 100 + kFixed);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// B070, B091, B145: what a killed process left behind stopped the next one, or stayed for ever.
TEST_F(NvmeFieldReportsTest, B070AfterEachOfTwentyKillsItOpensAndHasWhatWasPersisted) {
  constexpr std::uint64_t kKills = 20;
  for (std::uint64_t kill = 0; kill < kKills; ++kill) {
    const int status = InAChild([&] {
      OpenEngine();
      EXPECT_EQ(CountOf(100 * kill, kill == 0 ? 0 : 4), kill == 0 ? 0U : 4U);
      Put(100 * (kill + 1), 4);
      EXPECT_EQ(Persist(100 * (kill + 1), 4).blocks_ready, 4U);
      EXPECT_OK(
          Await(engine->Unpersist({.in = space, .keys = KeysOf(100 * kill, 4)}, *queue)).status);
      Put(10'000 + 100 * kill, 24 + kill % 5);  // Is being written down as the process goes.
      if (!HasFailure()) {
        ::kill(::getpid(), SIGKILL);
      }
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << kill << ": " << status;
  }
  OpenEngine();
  EXPECT_EQ(CountOf(100 * kKills, 4), 4U);
  EXPECT_LE(AllocatedBytes(folder), options.nvme.capacity_bytes + options.nvme.segment_bytes);
}

// B072, B154: a process could not end, or crashed as it ended, unless it closed the engine first.
// In programs of their own, since a fork of a process that has had RocksDB open cannot exit().
TEST_F(NvmeFieldReportsTest, B072AProcessEndsWithTheEngineLeftOpenHoweverItEnds) {
  const std::vector<std::pair<std::string, int>> ends{
      {"exit", 0}, {"quick_exit", 0}, {"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}, {"throw", SIGABRT}};
  for (const auto& [end, signal] : ends) {
    SCOPED_TRACE(end);
    const auto outcome = RunChild(
        {.arguments = {KVFERRY_LEAVES_OPEN, end}, .input = {}, .timeout_ms = 5'000 * kSlowdown});
    ASSERT_OK(outcome);
    EXPECT_EQ(outcome->signal, signal) << outcome->error_output;
    EXPECT_EQ(outcome->exit_code, 0) << outcome->error_output;
    EXPECT_EQ(outcome->output, "open\n");
  }
}

// B074: closing twice.
TEST_F(NvmeFieldReportsTest, B074ASecondCloseDoesNothing) {
  OpenEngine();
  Put(0, 4);
  ASSERT_EQ(Persist(0, 4).blocks_ready, 4U);
  queue.reset();
  EXPECT_OK(engine->Close());
  EXPECT_OK(engine->Close());
  engine.reset();
  OpenEngine();
  EXPECT_EQ(CountOf(0, 4), 4U);
}

// B089, B143: a count of bytes that began at nothing after a restart let the drive overfill.
TEST_F(NvmeFieldReportsTest, B089AfterARestartTheLimitCountsWhatWasThere) {
  options.nvme.capacity_bytes = 32 * kMiB;
  OpenEngine();
  const auto write = [&](std::uint64_t first) {
    Put(first, 32);
    EXPECT_OK(Persist(first, 32).status);
    EXPECT_OK(Await(engine->Unpersist({.in = space, .keys = KeysOf(first, 32)}, *queue)).status);
    EXPECT_LE(AllocatedBytes(folder), options.nvme.capacity_bytes + options.nvme.segment_bytes);
  };
  for (std::uint64_t first = 0; first < 640; first += 32) {
    write(first);
  }
  CloseEngine();

  OpenEngine();
  const EngineStats stats = engine->Stats();
  EXPECT_GT(stats.nvme_store.blocks_found, 100U);
  EXPECT_EQ(stats.nvme.blocks_resident, stats.nvme_store.blocks_found);
  EXPECT_GE(stats.nvme.bytes_resident, stats.nvme_store.blocks_found * kBlockBytes);
  for (std::uint64_t first = 1'000; first < 1'640; first += 32) {
    write(first);
  }
  EXPECT_GT(engine->Stats().nvme_store.segments_reused, 0U);
}

// B094: what was found damaged stopped the process, at each start again.
TEST_F(NvmeFieldReportsTest, B094DamageEverywhereNeverStopsTheProcess) {
  options.nvme.is_required = false;
  OpenEngine();
  Put(0, 40);
  ASSERT_EQ(Persist(0, 40).blocks_ready, 40U);
  CloseEngine();
  const std::string garbage(512, '\x5a');
  const auto damage_manifest = [&] {
    for (const auto& file : std::filesystem::directory_iterator(folder + "/drive/manifest")) {
      if (file.is_regular_file() && file.file_size() > 64) {
        Write(file.path(), file.file_size() / 2, garbage);
      }
    }
  };
  const std::vector<std::pair<std::string, std::function<void()>>> damages{
      {"headers of segments",
       [&] {
         for (std::size_t segment = 0; segment < 20; ++segment) {
           Write(DataFile(), kMiB * (1 + segment), garbage);
         }
       }},
      {"the manifest", damage_manifest},
      {"one superblock",
       [&] {
         Write(DataFile(), 0, garbage);
       }},
      {"the first MiB",
       [&] {
         Write(DataFile(), 0, std::string(kMiB, 'x'));
       }},
  };
  for (const auto& [name, damage] : damages) {
    SCOPED_TRACE(name);
    damage();
    for (int opening = 0; opening < 3; ++opening) {
      OpenEngine(WaitsForScan::kNo);
      EXPECT_LE(CountOf(0, 40), 40U);  // Right bytes, or a miss.
      Put(500, 2);
      EXPECT_EQ(CountOf(500, 2), 2U);
      CloseEngine();
    }
  }
}

// B140: a row of one block, and the payload of another in its place.
TEST_F(NvmeFieldReportsTest, B140ABlockWithAnotherOnesBytesIsAMiss) {
  OpenEngine();
  Put(0, 8);
  ASSERT_EQ(Persist(0, 8).blocks_ready, 8U);
  CloseEngine();
  const std::string file = ReadDataFile();
  const std::size_t first = PlaceOf(2, file);
  const std::size_t second = PlaceOf(5, file);
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(second, std::string::npos);
  Write(DataFile(), first, file.substr(second, kBlockBytes));
  Write(DataFile(), second, file.substr(first, kBlockBytes));

  OpenEngine();
  EXPECT_EQ(CountOf(0, 8), 6U);
  EXPECT_FALSE(Get(2));
  EXPECT_FALSE(Get(5));
  EXPECT_GE(engine->Stats().failed_checks, 2U);
}

// B003: one bit of some blocks is not what was stored.
TEST_F(NvmeFieldReportsTest, B003OneWrongBitIsAMiss) {
  OpenEngine();
  Put(0, 40);
  ASSERT_EQ(Persist(0, 40).blocks_ready, 40U);
  CloseEngine();
  const std::string file = ReadDataFile();
  for (std::uint64_t number = 0; number < 40; number += 4) {
    const std::size_t at = PlaceOf(number, file);
    ASSERT_NE(at, std::string::npos);
    const std::size_t byte = at + number * 1'601 % kBlockBytes;
    Write(DataFile(), byte, std::string(1, static_cast<char>(file[byte] ^ 1 << number % 8)));
  }
  OpenEngine();
  EXPECT_EQ(CountOf(0, 40), 30U);
  EXPECT_GE(engine->Stats().failed_checks, 10U);
}

}  // namespace
}  // namespace kvferry
