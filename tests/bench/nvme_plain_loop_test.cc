// The plain loop: what it moves and where to, over io_uring and over threads, and how it fails.
#include "bench/nvme_plain_loop.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/bench_file.h"
#include "bench/free_writer.h"
#include "bench/hash_pass.h"
#include "tests/support/status_matchers.h"
#include "tiers/host/host_memory.h"

namespace kvferry::bench {
namespace {

using tiers::IoBackend;
using Kind = tiers::IoOp::Kind;

constexpr std::uint64_t kBlockBytes = 64 << 10;
constexpr std::uint64_t kFileBytes = 4 << 20;

class PlainLoopTest : public ::testing::TestWithParam<IoBackend> {
 protected:
  void SetUp() override {
    auto mapped = tiers::HostMemory::Map({.bytes = 2 << 20});
    ASSERT_OK(mapped);
    memory_ = std::move(*mapped);
    std::ranges::fill(bytes(), std::byte{7});
    std::filesystem::remove(path_);
    auto made = MakeBenchFile(path_, kFileBytes, bytes());
    if (made.status().code() == StatusCode::kInvalidArgument) {
      GTEST_SKIP() << made.status().ToString();
    }
    ASSERT_OK(made);
    file_ = std::move(*made);
    options_.file = file_.fd();
    options_.memory = bytes();
    options_.block_bytes = static_cast<std::uint32_t>(kBlockBytes);
    options_.in_flight_max = 8;
    options_.backend = GetParam();
    options_.offsets = {kBlockBytes * 5, 0, kBlockBytes * 9};
    if (PlainLoop::Open(options_).status().code() == StatusCode::kUnavailable) {
      GTEST_SKIP() << "the kernel refuses io_uring";
    }
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static std::string TestFile() {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');
    return ::testing::TempDir() + "kvferry_plain_loop_" + name;
  }
  std::span<std::byte> bytes() const { return memory_->bytes(); }
  std::span<std::byte> Slot(std::size_t index) const {
    return bytes().subspan(index * kBlockBytes, kBlockBytes);
  }

  // A file of each test's own: the tests of a fixture run side by side.
  std::string path_ = TestFile();
  std::unique_ptr<tiers::HostMemory> memory_;
  FileDescriptor file_;
  PlainLoop::Options options_;
};

INSTANTIATE_TEST_SUITE_P(Backends,
                         PlainLoopTest,
                         ::testing::Values(IoBackend::kUring, IoBackend::kThreads),
                         [](const auto& backend) {
                           return backend.param == IoBackend::kUring ? "Uring" : "Threads";
                         });

// A bound that does less than it counts is none.
TEST_P(PlainLoopTest, MovesEachBlockFromItsSlotToItsPlaceAndBack) {
  for (std::size_t slot = 0; slot < 3; ++slot) {
    std::ranges::fill(Slot(slot), static_cast<std::byte>(0x10 + slot));
  }
  auto writer = PlainLoop::Open(options_);
  ASSERT_OK(writer);
  EXPECT_EQ((*writer)->backend(), GetParam());
  const auto wrote = (*writer)->Run(Kind::kWrite, {.blocks_max = 3});
  ASSERT_OK(wrote);
  EXPECT_EQ(wrote->bytes, 3U * kBlockBytes);

  std::ranges::fill(bytes(), std::byte{0});
  options_.offsets = {kBlockBytes * 9, kBlockBytes * 5, 0, kBlockBytes};
  auto reader = PlainLoop::Open(options_);
  ASSERT_OK(reader);
  const auto read = (*reader)->Run(Kind::kRead, {.blocks_max = 4});
  ASSERT_OK(read);

  EXPECT_EQ(read->bytes, 4U * kBlockBytes);
  EXPECT_GT(read->seconds, 0);
  EXPECT_GT(read->cpu_seconds, 0);
  EXPECT_EQ((*reader)->latencies().count(), 4U);
  EXPECT_GT((*reader)->latencies().Percentile(50), 0U);
  const std::vector<int> expected{0x12, 0x10, 0x11, 7};
  for (std::size_t slot = 0; slot < 4; ++slot) {
    const auto wanted = static_cast<std::byte>(expected[slot]);
    EXPECT_TRUE(std::ranges::all_of(Slot(slot), [&](std::byte b) { return b == wanted; })) << slot;
  }
}

TEST_P(PlainLoopTest, GoesRoundItsPlacesAndItsSlotsUntilTheTimeIsOver) {
  options_.memory = bytes().first(3 * kBlockBytes + 100);
  auto loop = PlainLoop::Open(options_);
  ASSERT_OK(loop);
  const auto some = (*loop)->Run(Kind::kRead, {.blocks_max = 100});
  ASSERT_OK(some);
  EXPECT_EQ(some->bytes, 100U * kBlockBytes);
  const auto timed = (*loop)->Run(Kind::kRead, {.time = std::chrono::milliseconds(5)});
  ASSERT_OK(timed);
  EXPECT_GE(timed->seconds, 0.005);
  EXPECT_GT(timed->bytes, 0U);
  EXPECT_EQ((*loop)->latencies().count(), 100 + timed->bytes / kBlockBytes);
  EXPECT_STATUS((*loop)->SetOffsets({}), StatusCode::kInvalidArgument);
  EXPECT_STATUS((*loop)->SetOffsets({100}), StatusCode::kInvalidArgument);
  ASSERT_OK((*loop)->SetOffsets({kFileBytes}));
  EXPECT_STATUS((*loop)->Run(Kind::kRead, {.blocks_max = 1}), StatusCode::kIoError);
}

TEST_P(PlainLoopTest, SaysWhichReadFailedAndGoesOnAfterIt) {
  options_.offsets = {0, kFileBytes, 0};  // The second one ends beyond the file.
  auto loop = PlainLoop::Open(options_);
  ASSERT_OK(loop);
  const auto failed = (*loop)->Run(Kind::kRead, {.blocks_max = 3});
  EXPECT_STATUS(failed, StatusCode::kIoError);
  EXPECT_NE(failed.status().message().find("at 4194304"), std::string_view::npos)
      << failed.status().ToString();
  options_.file = -1;
  auto closed = PlainLoop::Open(options_);
  if (closed.ok()) {  // The kernel may refuse to register a file that is none.
    EXPECT_STATUS((*closed)->Run(Kind::kRead, {.blocks_max = 1}), StatusCode::kIoError);
  }
}

TEST_P(PlainLoopTest, WritesBesideReadsAndStopsWhenTold) {
  FreeWriter writer(options_);
  for (int round = 0; round < 2; ++round) {
    writer.Resume();
    auto loop = PlainLoop::Open(options_);
    ASSERT_OK(loop);
    ASSERT_OK((*loop)->Run(Kind::kRead, {.time = std::chrono::milliseconds(30)}));
    const auto bytes = writer.Pause();
    ASSERT_OK(bytes);
    EXPECT_EQ(*bytes % kBlockBytes, 0U);
    const auto again = writer.Pause();
    ASSERT_OK(again);
    EXPECT_EQ(*again, *bytes);
  }
}

TEST_P(PlainLoopTest, GivesTheErrorOfAWriterThatCannot) {
  options_.block_bytes = 100;
  FreeWriter writer(options_);
  writer.Resume();
  EXPECT_STATUS(writer.Pause(), StatusCode::kInvalidArgument);
}

TEST(PlainLoopOptionsTest, RefusesWhatDoesNotFitTogether) {
  alignas(4096) static std::byte memory[8192];
  PlainLoop::Options good;
  good.memory = memory;
  good.offsets = {0};
  good.block_bytes = 4096;
  good.in_flight_max = 1;
  const auto refused = [](const PlainLoop::Options& options) {
    EXPECT_STATUS(PlainLoop::Open(options), StatusCode::kInvalidArgument);
  };
  PlainLoop::Options bad = good;
  bad.block_bytes = 5000;
  refused(bad);
  bad.block_bytes = 0;
  refused(bad);
  bad.block_bytes = 16384;
  refused(bad);
  bad = good;
  bad.offsets.clear();
  refused(bad);
  bad.offsets = {100};
  refused(bad);
  bad = good;
  bad.in_flight_max = 0;
  refused(bad);
  bad.in_flight_max = 5000;
  refused(bad);
}

TEST(HashPassTest, HashesEachBlockAtLeastOnce) {
  constexpr std::size_t kBlock = 4096;
  std::vector<std::byte> memory(100'000, std::byte{3});
  const HashCost once = MeasureHash(memory, 4096, 0);
  EXPECT_GT(once.cpu_us_per_mib, 0);
  EXPECT_GT(once.checksum, 0U);
  memory[24 * kBlock] ^= std::byte{1};  // Behind the last whole block.
  EXPECT_EQ(MeasureHash(memory, 4096, 0).checksum, once.checksum);
  memory[23 * kBlock] ^= std::byte{1};
  EXPECT_NE(MeasureHash(memory, 4096, 0).checksum, once.checksum);
}

}  // namespace
}  // namespace kvferry::bench
