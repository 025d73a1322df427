// The tables of an engine's numbers.
#include <cstddef>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvferry/stats.h"

namespace kvferry {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

EngineStats SomeStats() {
  EngineStats stats;
  stats.host.bytes_total = std::uint64_t{64} << 30;
  stats.host.bytes_resident = std::uint64_t{3} << 29;
  stats.host.blocks_resident = 1'536;
  stats.host.blocks_held = 17;
  stats.host.evictions = 2'000'001;
  stats.onboard_nvme_to_host.bytes = std::uint64_t{5} << 20;
  stats.onboard_nvme_to_host.blocks = 5;
  stats.lookups = 12'031;
  stats.hits_host = 12'000;
  stats.misses[static_cast<std::size_t>(MissReason::kErased)] = 31;
  stats.puts = 9;
  stats.puts_refused[static_cast<std::size_t>(MissReason::kOverQuota)] = 4;
  stats.index_bytes = 80 << 20;
  stats.history_blocks = 65'000;
  return stats;
}

// A number in another's row would be believed.
TEST(EngineStatsTest, ShowsEachNumberInItsRow) {
  const std::string table = ToString(SomeStats());

  EXPECT_THAT(table,
              ContainsRegex("host +64.0 GiB +1.50 GiB +0 B +0 B +0 B +1,536 +17 +2,000,001\n"));
  EXPECT_THAT(table, ContainsRegex("NVMe +0 B +0 B +0 B +0 B +0 B +0 +0 +0\n"));
  EXPECT_THAT(table, ContainsRegex("onboard NVMe to host +5.00 MiB +0 B +5 +0\n"));
  EXPECT_THAT(table, ContainsRegex("blocks asked for +12,031\n  hits in host +12,000\n"));
  EXPECT_THAT(table, ContainsRegex("index +80.0 MiB\n"));
  EXPECT_THAT(table, ContainsRegex("history +0 B +65,000 blocks\n"));
}

// Fifteen rows of zeros would hide the one cause that matters.
TEST(EngineStatsTest, ShowsOnlyCausesThatOccurred) {
  const std::string table = ToString(SomeStats());

  EXPECT_THAT(table, ContainsRegex("\n  missing: erased +31\n"));
  EXPECT_THAT(table, ContainsRegex("\n  refused: over quota +4\n"));
  EXPECT_THAT(table, Not(HasSubstr("missing: evicted")));
  EXPECT_THAT(table, Not(HasSubstr("refused: erased")));
  EXPECT_THAT(table, Not(HasSubstr("hits in NVMe")));
}

// Columns that do not line up are not read.
TEST(EngineStatsTest, LinesUpItsColumns) {
  const std::string table = ToString(SomeStats());

  const std::size_t second = table.find('\n') + 1;
  const std::size_t third = table.find('\n', second) + 1;
  const std::size_t fourth = table.find('\n', third) + 1;
  EXPECT_EQ(table.substr(0, 4), "tier");
  EXPECT_EQ(second, third - second);
  EXPECT_EQ(second, fourth - third);
}

}  // namespace
}  // namespace kvferry
