// Percentiles of counted values against a sorted list.
#include "replay/value_counts.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry::replay {
namespace {

TEST(ValueCountsTest, TakesTheNearestRankAndNotTheNextOne) {
  // ceil(50 * 4 / 100) = 2: the second of four, no interpolation and no rank too far.
  ValueCounts counts;
  for (const std::uint64_t value : {40U, 10U, 30U, 20U}) {
    counts.Add(value, 1);
  }

  EXPECT_EQ(counts.Percentile(50), 20U);
  EXPECT_EQ(counts.Percentile(51), 30U);
  EXPECT_EQ(counts.Percentile(1), 10U);
  EXPECT_EQ(counts.Max(), 40U);
}

TEST(ValueCountsTest, AllPercentilesOfOneValueAreThatValue) {
  // With n = 1 every rank rounds up to 1.
  ValueCounts counts;
  counts.Add(7, 1);

  EXPECT_EQ(counts.Percentile(1), 7U);
  EXPECT_EQ(counts.Percentile(99), 7U);
}

TEST(ValueCountsTest, AcceptsMoreValuesAfterAPercentileWasTaken) {
  // Compaction must not freeze the counts.
  ValueCounts counts;
  counts.Add(5, 2);
  ASSERT_EQ(counts.Max(), 5U);
  counts.Add(9, 1);
  counts.Add(1, 0);

  EXPECT_EQ(counts.Max(), 9U);
  EXPECT_EQ(counts.Percentile(1), 5U);
  EXPECT_EQ(counts.total_count(), 3U);
}

TEST(ValueCountsTest, RanksOfHugeCountsDoNotWrap) {
  // A trace may claim 2^62 empty minutes: percent * n would not fit in 64 bits.
  ValueCounts counts;
  counts.Add(0, std::uint64_t{1} << 62);
  counts.Add(3, 1);

  EXPECT_EQ(counts.Percentile(99), 0U);
  EXPECT_EQ(counts.Max(), 3U);
}

TEST(ValueCountsTest, EqualsASortedListOnRandomValues) {
  // Enough values, distinct and not, to be compacted several times on the way.
  const std::uint64_t seed = 20;
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937_64 random(seed);
  for (const std::uint64_t distinct : {100ULL, 1'000'000'000ULL}) {
    ValueCounts counts;
    std::vector<std::uint64_t> values;
    for (int i = 0; i < 150'000; ++i) {
      values.push_back(random() % distinct);
      counts.Add(values.back(), 1);
    }
    std::sort(values.begin(), values.end());

    for (std::uint32_t percent = 1; percent <= 100; ++percent) {
      const std::size_t rank = (values.size() * percent + 99) / 100;
      ASSERT_EQ(counts.Percentile(percent), values[rank - 1]) << percent << " of " << distinct;
    }
  }
}

}  // namespace
}  // namespace kvferry::replay
