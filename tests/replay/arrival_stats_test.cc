// Arrival statistics of a few times.
#include "replay/arrival_stats.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/replay/small_trace.h"

namespace kvferry::replay {
namespace {

using testing::MakeTrace;
using testing::SmallRequest;

Trace AtTimes(const std::vector<std::int64_t>& times_ms) {
  std::vector<SmallRequest> requests;
  for (const std::int64_t time_ms : times_ms) {
    requests.push_back({time_ms, {1}});
  }
  return MakeTrace(requests);
}

TEST(ArrivalStatsTest, MinutesCountFromTheFirstRequestWithEmptyAndPartialOnes) {
  // From 30,000 ms: minute 0 has two requests, minutes 1 and 2 none, minute 3 (not full) one.
  const ArrivalStats stats = ComputeArrivalStats(AtTimes({30'000, 89'999, 210'000}));

  EXPECT_EQ(stats.per_minute.p1, 0U);
  EXPECT_EQ(stats.per_minute.p50, 0U);
  EXPECT_EQ(stats.per_minute.p99, 2U);
  EXPECT_EQ(stats.per_minute.max, 2U);
}

TEST(ArrivalStatsTest, RateDividesAllRequestsByTheTimeBetweenFirstAndLast) {
  const ArrivalStats stats = ComputeArrivalStats(AtTimes({1'000, 1'500, 3'000}));

  ASSERT_TRUE(stats.per_second.has_value());
  EXPECT_DOUBLE_EQ(*stats.per_second, 1.5);
}

TEST(ArrivalStatsTest, VariationUsesThePopulationDeviation) {
  // Gaps 10 and 30: mean 20, population deviation 10, sample deviation 14.1.
  const ArrivalStats stats = ComputeArrivalStats(AtTimes({0, 10, 40}));

  ASSERT_TRUE(stats.gap_variation.has_value());
  EXPECT_DOUBLE_EQ(*stats.gap_variation, 0.5);
}

TEST(ArrivalStatsTest, UnsortedTimesSpanTheWholeRangeAndHaveGapsOfZero) {
  // Gaps 0 and 30; the span is that of the earliest to the latest time.
  const Trace trace = AtTimes({20, 10, 40});

  const ArrivalStats stats = ComputeArrivalStats(trace);

  EXPECT_EQ(SpanMs(trace), 30U);
  EXPECT_DOUBLE_EQ(*stats.gap_variation, 1.0);
  EXPECT_DOUBLE_EQ(*stats.per_second, 100.0);
  EXPECT_EQ(stats.distinct_timestamps, 3U);
}

TEST(ArrivalStatsTest, RatesOfASingleMomentAreUnknown) {
  const ArrivalStats stats = ComputeArrivalStats(AtTimes({5, 5, 5}));

  EXPECT_FALSE(stats.per_second.has_value());
  EXPECT_FALSE(stats.gap_variation.has_value());
  EXPECT_EQ(stats.distinct_timestamps, 1U);
  EXPECT_EQ(stats.per_minute.max, 3U);
}

TEST(ArrivalStatsTest, AnAbsurdSpanTakesNoMemoryAMinute) {
  // 2^64 ms are 3 * 10^14 minutes, nearly all of them empty.
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

  const ArrivalStats stats = ComputeArrivalStats(AtTimes({kMin, kMax, kMax}));

  EXPECT_EQ(stats.per_minute.p99, 0U);
  EXPECT_EQ(stats.per_minute.max, 2U);
}

TEST(ArrivalStatsTest, NoRequestsGiveNoNumbers) {
  const ArrivalStats stats = ComputeArrivalStats(AtTimes({}));

  EXPECT_FALSE(stats.per_second.has_value());
  EXPECT_EQ(stats.per_minute.max, 0U);
  EXPECT_EQ(stats.distinct_timestamps, 0U);
}

}  // namespace
}  // namespace kvferry::replay
