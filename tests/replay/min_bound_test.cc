// MIN against its definition, and as the bound that it is.
#include "replay/min_bound.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policy/policy_registry.h"
#include "tests/policy/policy_harness.h"

namespace kvferry::replay {
namespace {

using Path = std::vector<EntryIndex>;

// Every block's uses looked up anew for every decision.
class NaiveMin {
 public:
  NaiveMin(const Trace& trace, const CellOptions& options) : trace_(trace), options_(options) {
    for (const TraceRequest& request : trace.requests()) {
      paths_.emplace_back(request.block_count);
      trace.ReadPath(request, paths_.back());
    }
  }

  CellResult Run() {
    for (std::size_t index = 0; index < paths_.size(); ++index) {
      const Path& path = paths_[index];
      result_.lookups += path.size();
      if (options_.hit_rule == HitRule::kPrefix) {
        LookUpPrefix(index);
      } else {
        LookUpEach(index);
      }
      if (!options_.outputs.empty() && options_.outputs[index].block_count > 0) {
        const CellOptions::Output& output = options_.outputs[index];
        Path stored = paths_[output.successor];
        stored.resize(output.block_count);
        const std::set<EntryIndex> before = residents_;
        if (options_.hit_rule == HitRule::kPrefix) {
          KeepNearest(index, stored);
        } else {
          std::reverse(stored.begin(), stored.end());
          for (const EntryIndex entry : stored) {
            StoreMiss(entry, index, SIZE_MAX);
          }
        }
        CountEvictions(before);
      }
    }
    result_.resident_end = residents_.size();
    return result_;
  }

 private:
  // The first use after position `position` of request `index`: request and position, or the last
  // use where there is none. Larger leaves earlier.
  using Rank = std::tuple<bool, std::size_t, std::size_t>;
  Rank RankOf(EntryIndex entry, std::size_t index, std::size_t position) const {
    for (std::size_t later = index; later < paths_.size(); ++later) {
      for (std::size_t i = 0; i < paths_[later].size(); ++i) {
        if (paths_[later][i] == entry &&
            (later > index || (position != SIZE_MAX && i > position))) {
          return {false, later, i};
        }
      }
    }
    for (std::size_t earlier = index + 1; earlier-- > 0;) {
      const Path& path = paths_[earlier];
      const auto use = std::find(path.begin(), path.end(), entry);
      if (use != path.end()) {
        return {true, paths_.size() - earlier, static_cast<std::size_t>(use - path.begin())};
      }
    }
    return {true, 0, 0};
  }

  void LookUpPrefix(std::size_t index) {
    const Path& path = paths_[index];
    std::size_t hits = 0;
    while (hits < path.size() && residents_.contains(path[hits])) {
      ++hits;
    }
    result_.hit_blocks += hits;
    result_.requests_with_hit += hits > 0 ? 1U : 0U;
    const std::set<EntryIndex> before = residents_;
    KeepNearest(index, path);
    CountEvictions(before);
    std::set<EntryIndex> came;
    std::uint64_t resident_count = 0;
    for (std::size_t i = hits; i < path.size(); ++i) {
      result_.rejected += residents_.contains(path[i]) ? 0U : 1U;
      resident_count += residents_.contains(path[i]) ? 1U : 0U;
      if (residents_.contains(path[i]) && !before.contains(path[i])) {
        came.insert(path[i]);
      }
    }
    result_.resident_misses +=
        resident_count - std::min<std::uint64_t>(resident_count, came.size());
  }

  void KeepNearest(std::size_t index, const Path& path) {
    residents_.insert(path.begin(), path.end());
    std::vector<std::pair<Rank, EntryIndex>> ranked;
    for (const EntryIndex entry : residents_) {
      ranked.emplace_back(RankOf(entry, index, SIZE_MAX), entry);
    }
    std::sort(ranked.begin(), ranked.end());
    for (std::size_t i = options_.capacity_blocks; i < ranked.size(); ++i) {
      residents_.erase(ranked[i].second);
    }
  }

  void LookUpEach(std::size_t index) {
    bool has_hit = false;
    for (std::size_t position = 0; position < paths_[index].size(); ++position) {
      const EntryIndex entry = paths_[index][position];
      if (residents_.contains(entry)) {
        ++result_.hit_blocks;
        has_hit = true;
        continue;
      }
      const std::set<EntryIndex> before = residents_;
      StoreMiss(entry, index, position);
      CountEvictions(before);
    }
    result_.requests_with_hit += has_hit ? 1U : 0U;
  }

  void StoreMiss(EntryIndex entry, std::size_t index, std::size_t position) {
    if (residents_.contains(entry)) {
      return;
    }
    if (residents_.size() == options_.capacity_blocks) {
      const auto farther = [&](EntryIndex a, EntryIndex b) {
        return RankOf(a, index, position) < RankOf(b, index, position);
      };
      residents_.erase(std::max_element(residents_.begin(), residents_.end(), farther));
    }
    residents_.insert(entry);
  }

  void CountEvictions(const std::set<EntryIndex>& before) {
    for (const EntryIndex entry : before) {
      result_.evictions += residents_.contains(entry) ? 0U : 1U;
    }
  }

  const Trace& trace_;
  const CellOptions& options_;
  std::vector<Path> paths_;
  std::set<EntryIndex> residents_;
  CellResult result_;
};

// Some requests store a part of a later one's path when they end.
std::vector<CellOptions::Output> MakeOutputs(const Trace& trace, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t count = trace.requests().size();
  std::vector<CellOptions::Output> outputs(count);
  for (std::size_t index = 0; index + 1 < count; ++index) {
    const std::size_t successor = index + 1 + random() % (count - index - 1);
    const std::uint32_t blocks = trace.requests()[successor].block_count;
    if (random() % 3 == 0 && blocks > 0) {
      outputs[index] = {.successor = static_cast<std::uint32_t>(successor),
                        .block_count = static_cast<std::uint32_t>(1 + random() % blocks)};
    }
  }
  return outputs;
}

void ExpectEqualsDefinition(HitRule hit_rule, bool is_chained, bool has_outputs) {
  std::cout << "seeds 1 to 25\n";
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    const Trace trace = testing::MakeRandomTrace(seed, is_chained);
    const std::vector<CellOptions::Output> outputs = MakeOutputs(trace, seed);
    for (const std::uint32_t capacity : {1U, 2U, 4U, 9U, 25U, 500U}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", capacity " + std::to_string(capacity));
      CellOptions options;
      options.capacity_blocks = capacity;
      options.hit_rule = hit_rule;
      if (has_outputs) {
        options.outputs = outputs;
      }
      const CellResult actual = RunMinCell(trace, options);
      const CellResult expected = NaiveMin(trace, options).Run();

      ASSERT_EQ(actual.hit_blocks, expected.hit_blocks);
      ASSERT_EQ(actual.lookups, expected.lookups);
      ASSERT_EQ(actual.requests_with_hit, expected.requests_with_hit);
      ASSERT_EQ(actual.evictions, expected.evictions);
      ASSERT_EQ(actual.rejected, expected.rejected);
      ASSERT_EQ(actual.resident_misses, expected.resident_misses);
      ASSERT_EQ(actual.resident_end, expected.resident_end);
      ASSERT_EQ(actual.policy, "min");
      ASSERT_EQ(actual.capacity_blocks, capacity);
    }
  }
}

// An interval that is off by one keeps a block that the definition lets go.
TEST(MinBoundTest, IntervalsEqualTheDefinitionOnChainedTraces) {
  ExpectEqualsDefinition(HitRule::kPrefix, true, false);
}

// A stored output prolongs intervals of requests that did not touch it.
TEST(MinBoundTest, IntervalsEqualTheDefinitionWithOutputs) {
  ExpectEqualsDefinition(HitRule::kPrefix, true, true);
}

// A block may come twice in a request, with any neighbour.
TEST(MinBoundTest, ReferencesEqualTheDefinitionOnUnchainedTraces) {
  ExpectEqualsDefinition(HitRule::kPrefix, false, false);
  ExpectEqualsDefinition(HitRule::kPrefix, false, true);
}

// Here every miss is stored, and nothing bypasses.
TEST(MinBoundTest, ReferencesEqualTheDefinitionUnderTheBlockRule) {
  for (const bool is_chained : {true, false}) {
    ExpectEqualsDefinition(HitRule::kBlock, is_chained, false);
    ExpectEqualsDefinition(HitRule::kBlock, is_chained, true);
  }
}

// The token counts of a cell must not depend on who ran it.
TEST(MinBoundTest, CountsTokensAsEveryCellDoes) {
  const Trace trace = testing::MakeRandomTrace(3, true, 200);
  for (const HitRule hit_rule : {HitRule::kPrefix, HitRule::kBlock}) {
    CellOptions options;
    options.capacity_blocks = trace.distinct_blocks();
    options.hit_rule = hit_rule;
    options.warmup_requests = 50;
    std::atomic<std::uint64_t> progress = 0;
    options.progress_refs = &progress;
    const CellResult min = RunMinCell(trace, options);
    EXPECT_EQ(progress, trace.block_refs());
    policy::LeafLruPolicy policy(
        {.entries_max = trace.distinct_blocks(), .residents_max = trace.distinct_blocks()});

    // With room for everything there is nothing to decide.
    const CellResult lru = CacheCell(trace, options, policy).Run();
    testing::ExpectSameCounts(min, lru);
    EXPECT_EQ(min.lookup_tokens, lru.lookup_tokens);
    EXPECT_EQ(min.hit_tokens_full_blocks, lru.hit_tokens_full_blocks);
    EXPECT_LT(min.lookups, trace.block_refs());
  }
}

// If some policy had more hits, MIN would not be one.
TEST(MinBoundTest, NoPolicyHasMoreHitsOnChainedTraces) {
  std::vector<std::string> names = {"second-sight:leaf-lru", "adaptive:lfu"};
  for (const std::string_view name : EvictionPolicyNames()) {
    names.emplace_back(name);
  }
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    const Trace trace = testing::MakeRandomTrace(seed, true, 150);
    for (const std::uint32_t capacity : {3U, 20U, 60U}) {
      CellOptions options;
      options.capacity_blocks = capacity;
      const CellResult min = RunMinCell(trace, options);
      for (const std::string& name : names) {
        auto policy = CreateEvictionPolicy(
            name, {.entries_max = trace.distinct_blocks(), .residents_max = capacity});
        ASSERT_TRUE(policy.ok());
        EXPECT_LE(CacheCell<EvictionPolicy>(trace, options, **policy).Run().hit_blocks,
                  min.hit_blocks)
            << name << " at " << capacity << ", seed " << seed;
      }
    }
  }
}

// A plan that is below what is taken would break the memory limit.
TEST(MinBoundTest, PlansMoreMemoryForReferencesThanForIntervals) {
  const Trace trace = testing::MakeRandomTrace(3, true, 2'000);
  const std::uint64_t by_interval = MinCellMemoryBytes(trace, HitRule::kPrefix);
  const std::uint64_t by_reference = MinCellMemoryBytes(trace, HitRule::kBlock);
  EXPECT_GE(by_interval, trace.distinct_blocks() * 4ULL + trace.requests().size() * 48ULL);
  EXPECT_GE(by_reference, trace.block_refs() * 4 + trace.distinct_blocks() * 8ULL);
}

}  // namespace
}  // namespace kvferry::replay
