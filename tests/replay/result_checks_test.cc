// Each thing that must hold between cells, broken on purpose.
#include "replay/result_checks.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/replay/small_trace.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

using testing::MakeRandomRequests;
using testing::MakeTrace;

CellResult RunPolicy(const Trace& trace, const std::string& policy, const CellOptions& options) {
  auto instance = CreateEvictionPolicy(
      policy, {.entries_max = trace.distinct_blocks(), .residents_max = options.capacity_blocks});
  KVFERRY_CHECK(instance.ok());
  CellResult result = CacheCell<EvictionPolicy>(trace, options, **instance).Run();
  result.policy = policy;
  return result;
}

CellOptions AtCapacity(std::uint32_t capacity_blocks, HitRule rule) {
  CellOptions options;
  options.capacity_blocks = capacity_blocks;
  options.hit_rule = rule;
  return options;
}

std::vector<CellResult> RunLrus(const Trace& trace, HitRule rule) {
  std::vector<CellResult> results;
  for (const std::uint32_t capacity : {1U, 3U, 8U, 1000U}) {
    for (const char* policy : {"leaf-lru", "lru-head-first"}) {
      results.push_back(RunPolicy(trace, policy, AtCapacity(capacity, rule)));
    }
  }
  return results;
}

TEST(CheckResultsTest, AcceptsWhatCellsReallyCount) {
  // Random traces of both forms under both rules: the checks must not be stricter than the cells.
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    auto requests = MakeRandomRequests(seed, seed % 2 == 0);
    requests.push_back({0, {1'000'000}});
    const Trace trace = MakeTrace(requests);
    for (const HitRule rule : {HitRule::kPrefix, HitRule::kBlock}) {
      const TraceStats stats = ComputeTraceStats(trace, {.hit_rule = rule});

      EXPECT_OK(CheckResults(trace, stats, RunLrus(trace, rule), {.hit_rule = rule}));
    }
  }
}

// A trace, its two cells and a bound, all right; a test makes one thing wrong.
class CheckResultsFaultTest : public ::testing::Test {
 protected:
  CheckResultsFaultTest() {
    for (const std::uint32_t capacity : {2U, 3U}) {
      const CellOptions options = AtCapacity(capacity, HitRule::kPrefix);
      cells_.push_back(RunPolicy(trace_, "leaf-lru", options));
      cells_.push_back(RunPolicy(trace_, "lru-head-first", options));
      CellResult bound = cells_.back();
      bound.policy = "min";
      cells_.push_back(bound);
    }
  }

  Status Check(const CheckOptions& options) const {
    return CheckResults(trace_, stats_, cells_, options);
  }

  // The first cell with another number is refused, and its name is in the message.
  void ExpectRefused(const std::string& reason) const {
    const Status status = Check({});
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_NE(status.message().find("leaf-lru at 2 blocks"), std::string::npos)
        << status.ToString();
    EXPECT_NE(status.message().find(reason), std::string::npos) << status.ToString();
  }

  // One block a path, so the two orders of LRU agree and the LRUs are their own bound here.
  Trace trace_ = MakeTrace({{0, {1}}, {0, {2}}, {0, {1}}, {0, {3}}, {0, {4}}, {0, {4}}});
  TraceStats stats_ = ComputeTraceStats(trace_, {});
  std::vector<CellResult> cells_;
};

TEST_F(CheckResultsFaultTest, IsSilentWhenAllIsWell) {
  EXPECT_OK(Check({}));
}

TEST_F(CheckResultsFaultTest, RefusesLookupsThatAreNotTheTraces) {
  ++cells_[0].lookups;
  ExpectRefused("lookups (7)");
}

TEST_F(CheckResultsFaultTest, RefusesTokensThatAreNotTheTraces) {
  ++cells_[0].lookup_tokens;
  ExpectRefused("tokens looked up");
}

TEST_F(CheckResultsFaultTest, RefusesMoreFullBlockTokensThanTokens) {
  cells_[0].hit_tokens_full_blocks = cells_[0].hit_tokens + 1;
  ExpectRefused("hit tokens of full blocks");
}

TEST_F(CheckResultsFaultTest, RefusesMoreRequestsWithAHitThanHits) {
  cells_[0].requests_with_hit = cells_[0].hit_blocks + 1;
  ExpectRefused("requests with a hit");
}

TEST_F(CheckResultsFaultTest, RefusesMoreResidentsThanTheCapacity) {
  cells_[0].resident_end = 3;
  ExpectRefused("residents at the end");
}

TEST_F(CheckResultsFaultTest, RefusesMissesThatAreNotAccountedFor) {
  ++cells_[0].evictions;
  ExpectRefused("misses (4) is not rejected + evictions");
}

TEST_F(CheckResultsFaultTest, DoesNotAccountForMissesAfterAWarmUpOrWithOutputs) {
  // Evictions of the warm-up are not counted, and stored outputs come without a miss.
  ++cells_[0].evictions;

  EXPECT_OK(Check({.stores_outputs = true}));
  stats_ = ComputeTraceStats(trace_, {.warmup_requests = 1});
  for (CellResult& cell : cells_) {
    cell.lookups -= 1;
    cell.lookup_tokens -= testing::kSmallBlockTokens;
  }
  EXPECT_OK(Check({.warmup_requests = 1}));
}

TEST_F(CheckResultsFaultTest, RefusesMoreHitsThanAnInfiniteCacheHas) {
  ++cells_[0].hit_blocks;
  --cells_[0].evictions;
  ExpectRefused("those of an infinite cache");
}

TEST_F(CheckResultsFaultTest, RefusesFewerHitsThanAnInfiniteCacheWhereNothingWasLost) {
  cells_[0].hit_blocks = 0;
  cells_[0].requests_with_hit = 0;
  cells_[0].evictions = 0;
  cells_[0].resident_misses = 4;
  ExpectRefused("without any eviction or rejection");
}

TEST_F(CheckResultsFaultTest, RefusesMoreHitsThanMin) {
  for (CellResult& cell : cells_) {
    if (cell.policy == "min") {
      --cell.hit_blocks;
      ++cell.rejected;
      --cell.requests_with_hit;
    }
  }
  ExpectRefused("more than min");
}

TEST_F(CheckResultsFaultTest, UnderTheBlockRuleMinDoesNotBoundPoliciesThatReject) {
  // A policy that bypasses may beat a MIN that stores every miss.
  for (CellResult& cell : cells_) {
    if (cell.policy == "min") {
      --cell.hit_blocks;
      ++cell.evictions;
      --cell.requests_with_hit;
    } else {
      ++cell.rejected;
      --cell.evictions;
    }
  }

  EXPECT_OK(Check({.hit_rule = HitRule::kBlock}));
  EXPECT_STATUS(Check({.hit_rule = HitRule::kPrefix}), StatusCode::kInternal);
}

TEST_F(CheckResultsFaultTest, RefusesHitsThatFallWithCapacity) {
  CellResult& larger = cells_[3];
  ASSERT_EQ(larger.policy, "leaf-lru");
  --larger.hit_blocks;
  ++larger.rejected;
  --larger.requests_with_hit;
  cells_.erase(cells_.begin() + 4, cells_.end());
  ExpectRefused("at 3 blocks");
}

TEST_F(CheckResultsFaultTest, RefusesLruOrdersThatDifferWhereTheyCannot) {
  --cells_[0].hit_blocks;
  ++cells_[0].rejected;
  --cells_[0].requests_with_hit;
  ExpectRefused("touched in one way only");
}

TEST_F(CheckResultsFaultTest, RefusesACellThatRunsDifferentlyTwice) {
  cells_.push_back(cells_[0]);
  --cells_.back().hit_blocks;
  ++cells_.back().rejected;
  --cells_.back().requests_with_hit;
  ExpectRefused("same cell");
}

TEST_F(CheckResultsFaultTest, DescribesOnlyWhatItChecks) {
  const std::string all = DescribeChecks(trace_, cells_, {});
  EXPECT_NE(all.find("infinite cache or min"), std::string::npos);
  EXPECT_NE(all.find("LRU never loses"), std::string::npos);
  EXPECT_EQ(DescribeChecks(trace_, cells_, {.stores_outputs = true}).find("evictions"),
            std::string::npos);

  // Without a bound, and with one capacity, there is nothing to compare.
  const std::string one = DescribeChecks(trace_, std::span(cells_).first(1), {});
  EXPECT_NE(one.find("hits + misses"), std::string::npos);
  EXPECT_EQ(one.find("or min"), std::string::npos);
  EXPECT_EQ(one.find("LRU never loses"), std::string::npos);
  EXPECT_EQ(DescribeChecks(trace_, {}, {}), "");
}

}  // namespace
}  // namespace kvferry::replay
