// What tables and pool may take together.
#include "engine/memory_need.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "tests/support/status_matchers.h"

namespace kvferry::engine {
namespace {

EngineOptions WithNvme(std::uint64_t capacity_bytes, std::uint32_t block_bytes) {
  EngineOptions options;
  options.host.bytes = kGiB;
  options.history.blocks_max = 0;
  options.block_bytes = block_bytes;
  options.nvme.paths = {"/srv/nvme0"};
  options.nvme.capacity_bytes = capacity_bytes;
  return options;
}

TEST(MemoryNeedTest, CountsTheBlocksOfBothTiers) {
  EngineOptions options = WithNvme(kTiB, kMiB);
  EXPECT_NEAR(static_cast<double>(TableBytes(options)), (1'024 + 1'020 * 1'024) * 100.0, 1e6);
  options.history.blocks_max = 1'000'000;
  const std::uint64_t with_history = TableBytes(options);
  options.history.blocks_max = 0;
  EXPECT_EQ(with_history - TableBytes(options), 16'000'000U);
}

TEST(MemoryNeedTest, RefusesTablesThatDoNotFitBesideThePool) {
  const Result<MemoryLimit> limit = MemoryLimit{16 * kGiB, "/proc/meminfo"};
  EXPECT_OK(CheckTables(WithNvme(8 * kTiB, kMiB), limit));

  const Status refused = CheckTables(WithNvme(8 * kTiB, 32 * kKiB), limit);

  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::AllOf(::testing::HasSubstr("blocks of 32.0 KiB take up to 24.9 GiB"),
                               ::testing::HasSubstr("beside host.bytes of 1.00 GiB"),
                               ::testing::HasSubstr("may use 16.0 GiB (by /proc/meminfo)"),
                               ::testing::HasSubstr("raise block_bytes")));
}

TEST(MemoryNeedTest, DoesNotCountReservedPagesAgainstTheLimit) {
  const Result<MemoryLimit> limit = MemoryLimit{kGiB, "/sys/fs/cgroup/memory.max"};
  EngineOptions options = WithNvme(64 * kGiB, kMiB);
  EXPECT_STATUS(CheckTables(options, limit), StatusCode::kInvalidArgument);
  options.host.huge_pages = HugePages::kReserved;
  EXPECT_OK(CheckTables(options, limit));
  options.host.huge_pages = HugePages::kNone;
  EXPECT_OK(CheckTables(options, Status::Error(StatusCode::kUnavailable, "unknown")));
}

}  // namespace
}  // namespace kvferry::engine
