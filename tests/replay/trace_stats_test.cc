// The infinite cache by hand and against a naive one, and what is said without block ids.
#include "replay/trace_stats.h"

#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/replay/small_trace.h"

namespace kvferry::replay {
namespace {

using testing::MakeRandomRequests;
using testing::MakeTrace;

InfiniteCache InfiniteOf(const Trace& trace, const StatsOptions& options) {
  return ComputeTraceStats(trace, options).infinite.value();
}

TEST(TraceStatsTest, CountsThePartOfAPartialLastBlockThatItHas) {
  // 3 blocks for 25 tokens, twice: the second time all 25 are hits, 20 of them in full blocks.
  const Trace trace = MakeTrace({{0, {1, 2, 3}, 0, "", 25}, {0, {1, 2, 3}, 0, "", 25}});

  const InfiniteCache infinite = InfiniteOf(trace, {});

  EXPECT_EQ(infinite.hit_blocks, 3U);
  EXPECT_EQ(infinite.hit_tokens, 25U);
  EXPECT_EQ(infinite.hit_tokens_full_blocks, 20U);
  EXPECT_DOUBLE_EQ(infinite.block_ratio(), 0.5);
  EXPECT_DOUBLE_EQ(infinite.token_ratio(), 0.5);
}

TEST(TraceStatsTest, TokensWithoutABlockIdAreInputAndNeverHits) {
  // Two ids for 27 tokens (floor): the last seven count in the denominator only.
  const Trace trace = MakeTrace({{0, {1, 2}, 0, "", 27}, {0, {1, 2}, 0, "", 27}});

  const InfiniteCache infinite = InfiniteOf(trace, {});

  EXPECT_EQ(infinite.hit_tokens, 20U);
  EXPECT_EQ(infinite.lookup_tokens, 54U);
}

TEST(TraceStatsTest, SecondHalfBeginsAtHalfTheRequestsRoundedDown) {
  // Of three requests the second half is 1 and 2: 20 of 30 tokens hit, all of them there.
  const Trace trace = MakeTrace({{0, {1}}, {0, {1}}, {0, {1}}});

  EXPECT_DOUBLE_EQ(InfiniteOf(trace, {}).token_ratio_second_half(), 1.0);
  EXPECT_DOUBLE_EQ(InfiniteOf(trace, {}).token_ratio(), 2.0 / 3.0);
}

TEST(TraceStatsTest, WarmUpFillsTheCacheAndIsNotCounted) {
  const Trace trace = MakeTrace({{0, {1, 2}}, {0, {1, 2}}, {0, {1, 3}}});

  const InfiniteCache infinite = InfiniteOf(trace, {.warmup_requests = 2});

  EXPECT_EQ(infinite.requests, 1U);
  EXPECT_EQ(infinite.lookups, 2U);
  EXPECT_EQ(infinite.hit_blocks, 1U);
  EXPECT_EQ(infinite.requests_with_hit, 1U);
  EXPECT_EQ(InfiniteOf(trace, {.warmup_requests = 9}).lookups, 0U);
}

TEST(TraceStatsTest, BlockRuleCountsHitsBehindAMiss) {
  // Unchained: 3 is new, 2 behind it is not. The prefix rule stops at 3.
  const Trace trace = MakeTrace({{0, {1, 2}}, {0, {1, 3, 2}}});

  EXPECT_EQ(InfiniteOf(trace, {.hit_rule = HitRule::kPrefix}).hit_blocks, 1U);
  EXPECT_EQ(InfiniteOf(trace, {.hit_rule = HitRule::kBlock}).hit_blocks, 2U);
}

TEST(TraceStatsTest, StoredOutputsAreThereBeforeTheirSuccessorComes) {
  // Request 0's output fills block 3, so request 1 misses block 4 only.
  const Trace trace = MakeTrace({{0, {1, 2}, 10}, {1, {1, 2, 3, 4}}});
  const auto outputs = FindStoredOutputs(trace);

  EXPECT_EQ(InfiniteOf(trace, {}).hit_blocks, 2U);
  EXPECT_EQ(InfiniteOf(trace, {.outputs = outputs}).hit_blocks, 3U);
}

TEST(TraceStatsTest, LengthsArePerRequest) {
  const Trace trace = MakeTrace({{0, {1}, 7, "", 3}, {0, {2, 3}, 5, "", 20}});

  const TraceStats stats = ComputeTraceStats(trace, {});

  EXPECT_DOUBLE_EQ(stats.input.mean, 11.5);
  EXPECT_EQ(stats.input.p50, 3U);
  EXPECT_EQ(stats.input.max, 20U);
  EXPECT_EQ(stats.output.p50, 5U);
  EXPECT_EQ(stats.output.p99, 7U);
  EXPECT_EQ(stats.output_tokens, 12U);
}

TEST(TraceStatsTest, WithoutBlockIdsOnlyLengthsAndArrivalsAreKnown) {
  TraceBuilder builder;
  builder.BeginStream(0);
  RawRequest request;
  request.input_tokens = 5;
  ASSERT_TRUE(builder.Add(request).ok());
  request.time_ms = 10;
  request.input_tokens = 7;
  ASSERT_TRUE(builder.Add(request).ok());
  TraceOrigin origin;
  origin.has_blocks = false;
  const auto trace = builder.Finish(origin, {}, false);
  ASSERT_TRUE(trace.ok());

  const TraceStats stats = ComputeTraceStats(*trace, {});

  EXPECT_FALSE(stats.infinite.has_value());
  EXPECT_FALSE(stats.reuse.has_value());
  EXPECT_FALSE(stats.blocks.has_value());
  EXPECT_EQ(stats.sessions.kind, SessionKind::kNone);
  EXPECT_EQ(stats.input.max, 7U);
  EXPECT_DOUBLE_EQ(stats.arrivals.per_second.value(), 200.0);
}

TEST(TraceStatsTest, NoRequestsGiveZeros) {
  const TraceStats stats = ComputeTraceStats(MakeTrace({}), {});

  EXPECT_EQ(stats.requests, 0U);
  EXPECT_EQ(stats.infinite->lookups, 0U);
  EXPECT_DOUBLE_EQ(stats.infinite->block_ratio(), 0.0);
  EXPECT_EQ(stats.sessions.count, 0U);
}

// The infinite cache as its definition reads, with sets and no regard for time.
InfiniteCache CountNaively(const Trace& trace, const StatsOptions& options) {
  InfiniteCache result;
  std::set<EntryIndex> seen;
  const std::uint32_t size = trace.origin().block_tokens;
  for (std::size_t index = 0; index < trace.requests().size(); ++index) {
    const TraceRequest& request = trace.requests()[index];
    std::vector<EntryIndex> path(request.block_count);
    trace.ReadPath(request, path);
    const std::set<EntryIndex> seen_before = seen;
    std::uint64_t hits = 0;
    std::uint64_t tokens = 0;
    std::uint64_t full_tokens = 0;
    bool is_prefix = true;
    for (std::uint32_t i = 0; i < path.size(); ++i) {
      is_prefix = is_prefix && seen_before.contains(path[i]);
      const bool is_hit = options.hit_rule == HitRule::kPrefix ? is_prefix : seen.contains(path[i]);
      seen.insert(path[i]);
      if (is_hit) {
        const std::uint32_t held = trace.BlockTokensAt(request, i);
        ++hits;
        tokens += held;
        full_tokens += held == size ? held : 0U;
      }
    }
    if (!options.outputs.empty() && options.outputs[index].block_count > 0) {
      const TraceRequest& successor = trace.requests()[options.outputs[index].successor];
      std::vector<EntryIndex> later(successor.block_count);
      trace.ReadPath(successor, later);
      seen.insert(later.begin(), later.begin() + options.outputs[index].block_count);
    }
    if (index >= options.warmup_requests) {
      result.lookups += path.size();
      result.hit_blocks += hits;
      result.hit_tokens += tokens;
      result.hit_tokens_full_blocks += full_tokens;
      result.requests_with_hit += hits > 0 ? 1U : 0U;
    }
  }
  return result;
}

TEST(TraceStatsTest, InfiniteCacheEqualsANaiveOneOnRandomTraces) {
  // All forms of a trace under both rules, with and without warm-up and outputs.
  std::uint64_t outputs_seen = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Trace trace = MakeTrace(MakeRandomRequests(seed, seed % 3 != 0));
    const auto outputs = FindStoredOutputs(trace);
    for (const auto& output : outputs) {
      outputs_seen += output.block_count > 0 ? 1U : 0U;
    }
    for (const HitRule rule : {HitRule::kPrefix, HitRule::kBlock}) {
      for (const bool stores_outputs : {false, true}) {
        StatsOptions options{.hit_rule = rule, .warmup_requests = seed % 4};
        if (stores_outputs) {
          options.outputs = outputs;
        }
        const InfiniteCache expected = CountNaively(trace, options);

        const InfiniteCache infinite = InfiniteOf(trace, options);

        ASSERT_EQ(infinite.lookups, expected.lookups);
        ASSERT_EQ(infinite.hit_blocks, expected.hit_blocks);
        ASSERT_EQ(infinite.hit_tokens, expected.hit_tokens);
        ASSERT_EQ(infinite.hit_tokens_full_blocks, expected.hit_tokens_full_blocks);
        ASSERT_EQ(infinite.requests_with_hit, expected.requests_with_hit);
      }
    }
  }
  EXPECT_GT(outputs_seen, 100U);
}

}  // namespace
}  // namespace kvferry::replay
