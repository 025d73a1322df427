// Reuse intervals and block popularity of traces small enough for paper.
#include "replay/reuse_intervals.h"

#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "replay/trace_stats.h"
#include "tests/replay/small_trace.h"

namespace kvferry::replay {
namespace {

using testing::MakeTrace;
using testing::SmallRequest;

TEST(ReuseCounterTest, MeasuresFromTheLastReferenceAndNotTheFirst) {
  // Block 1 at 0, 10 and 40 ms: intervals 10 and 30, not 10 and 40. Positions 1 and 1.
  const Trace trace = MakeTrace({{0, {1}}, {10, {1}}, {40, {1}}});

  const auto reuse = ComputeTraceStats(trace, {}).reuse;

  ASSERT_TRUE(reuse.has_value());
  EXPECT_EQ(reuse->ms.p50, 10U);
  EXPECT_EQ(reuse->ms.p75, 30U);
  EXPECT_EQ(reuse->ms.max, 30U);
  EXPECT_EQ(reuse->requests.max, 1U);
}

TEST(ReuseCounterTest, CountsEveryBlockOfAPath) {
  // Three blocks come back after 5 ms and one of them once more after 100: 3 of 4 are 5.
  const Trace trace = MakeTrace({{0, {1, 2, 3}}, {5, {1, 2, 3}}, {7, {9}}, {105, {1, 8}}});

  const auto reuse = ComputeTraceStats(trace, {}).reuse;

  ASSERT_TRUE(reuse.has_value());
  EXPECT_EQ(reuse->ms.p75, 5U);
  EXPECT_EQ(reuse->ms.p90, 100U);
  EXPECT_EQ(reuse->requests.p75, 1U);
  EXPECT_EQ(reuse->requests.p90, 2U);
}

TEST(ReuseCounterTest, ABlockTwiceInOneRequestIsReusedAtOnce) {
  // Only unchained traces have that: interval 0, in time and in positions.
  const Trace trace = MakeTrace({{0, {1, 2, 1}}});

  const auto reuse = ComputeTraceStats(trace, {}).reuse;

  ASSERT_FALSE(trace.is_chained());
  ASSERT_TRUE(reuse.has_value());
  EXPECT_EQ(reuse->ms.max, 0U);
  EXPECT_EQ(reuse->requests.max, 0U);
}

TEST(ReuseCounterTest, TimesThatGoBackCountAsZero) {
  const Trace trace = MakeTrace({{50, {1}}, {20, {1}}});

  const auto reuse = ComputeTraceStats(trace, {}).reuse;

  ASSERT_TRUE(reuse.has_value());
  EXPECT_EQ(reuse->ms.max, 0U);
  EXPECT_EQ(reuse->requests.max, 1U);
}

TEST(ReuseCounterTest, HasNothingToSayWhereNoBlockComesTwice) {
  EXPECT_FALSE(ComputeTraceStats(MakeTrace({{0, {1}}, {1, {2}}}), {}).reuse.has_value());
}

TEST(ElapsedMsTest, TheLongestSpanDoesNotWrap) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

  EXPECT_EQ(ElapsedMs(kMin, kMax), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(ElapsedMs(kMax, kMin), 0U);
}

TEST(BlockPopularityTest, PutsBlocksIntoTheirClasses) {
  // Paths 1, 1-2, 1-2-3 ...: block 1 is referenced 100 times, its descendants less and less.
  std::vector<SmallRequest> requests(100, {0, {1}});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i < 99) {
      requests[i].ids.push_back(2);
    }
    if (i < 10) {
      requests[i].ids.push_back(3);
    }
    if (i < 9) {
      requests[i].ids.push_back(4);
    }
    if (i < 3) {
      requests[i].ids.push_back(5);
    }
    if (i < 2) {
      requests[i].ids.push_back(6);
    }
    if (i < 1) {
      requests[i].ids.push_back(7);
    }
  }
  const Trace trace = MakeTrace(requests);

  const BlockPopularity popularity = ComputeBlockPopularity(trace);

  EXPECT_EQ(popularity.referenced_once, 1U);
  EXPECT_EQ(popularity.referenced_twice, 1U);
  EXPECT_EQ(popularity.referenced_3_to_9, 2U);
  EXPECT_EQ(popularity.referenced_10_to_99, 2U);
  EXPECT_EQ(popularity.referenced_100_or_more, 1U);
  // One block is the top 1 % of seven: 99 of the 224 - 7 references that are not first ones.
  EXPECT_EQ(trace.block_refs(), 224U);
  EXPECT_DOUBLE_EQ(popularity.top_1_percent_share, 99.0 / 217.0);
}

TEST(BlockPopularityTest, TheTopPercentIsRoundedDown) {
  // 299 blocks have two in their top 1 %, of which two roots are referenced three times each.
  std::vector<SmallRequest> requests;
  for (std::uint64_t id = 0; id < 299; ++id) {
    requests.push_back({0, {id}});
  }
  for (const std::uint64_t id : {7U, 7U, 8U, 8U, 9U}) {
    requests.push_back({0, {id}});
  }

  EXPECT_DOUBLE_EQ(ComputeBlockPopularity(MakeTrace(requests)).top_1_percent_share, 4.0 / 5.0);
}

TEST(BlockPopularityTest, IsTheSameWhereOneOddIdBreaksTheChain) {
  // The other way of counting: an id with two predecessors makes the trace unchained.
  const std::vector<SmallRequest> requests = {
      {0, {1, 2}}, {0, {1, 2, 3}}, {0, {3, 2}}, {0, {1}}, {0, {4}}};
  const Trace trace = MakeTrace(requests);

  const BlockPopularity popularity = ComputeBlockPopularity(trace);

  ASSERT_FALSE(trace.is_chained());
  EXPECT_EQ(popularity.referenced_once, 1U);
  EXPECT_EQ(popularity.referenced_twice, 1U);
  EXPECT_EQ(popularity.referenced_3_to_9, 2U);
  EXPECT_DOUBLE_EQ(popularity.top_1_percent_share, 2.0 / 5.0);
}

}  // namespace
}  // namespace kvferry::replay
