// The cell's counts against sets that are compared before and after every request.
#include "replay/cache_cell.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policy/policy_registry.h"
#include "tests/policy/policy_harness.h"
#include "tests/policy/reference_policies.h"

namespace kvferry::replay {
namespace {

using EntrySet = std::set<EntryIndex>;

// One block at a time, no batches, no shortcuts.
class NaiveCell {
 public:
  NaiveCell(const Trace& trace, const CellOptions& options, EvictionPolicy& policy)
      : trace_(trace), options_(options), policy_(policy) {}

  CellResult Run() {
    const std::span<const TraceRequest> requests = trace_.requests();
    for (std::size_t index = 0; index < requests.size(); ++index) {
      is_counted_ = index >= options_.warmup_requests;
      std::vector<EntryIndex> path(requests[index].block_count);
      trace_.ReadPath(requests[index], path);
      if (options_.hit_rule == HitRule::kPrefix) {
        LookUpPrefix(requests[index], path);
      } else {
        LookUpEach(requests[index], path);
      }
      if (!options_.outputs.empty() && options_.outputs[index].block_count > 0) {
        const CellOptions::Output& output = options_.outputs[index];
        std::vector<EntryIndex> stored(requests[output.successor].block_count);
        trace_.ReadPath(requests[output.successor], stored);
        stored.resize(output.block_count);
        const EntrySet before = residents_;
        Store(stored);
        Count(result_.evictions, Missing(before, residents_));
      }
    }
    result_.resident_end = residents_.size();
    return result_;
  }

 private:
  void Count(std::uint64_t& counter, std::uint64_t amount) { counter += is_counted_ ? amount : 0; }
  static std::uint64_t Missing(const EntrySet& wanted, const EntrySet& present) {
    return static_cast<std::uint64_t>(std::count_if(
        wanted.begin(), wanted.end(), [&](EntryIndex entry) { return !present.contains(entry); }));
  }
  std::uint64_t TokensOf(const TraceRequest& request, std::uint32_t blocks) const {
    return std::min<std::uint64_t>(request.input_tokens,
                                   std::uint64_t{blocks} * trace_.origin().block_tokens);
  }

  void LookUpPrefix(const TraceRequest& request, const std::vector<EntryIndex>& path) {
    const EntrySet before = residents_;
    std::uint32_t hits = 0;
    while (hits < path.size() && before.contains(path[hits])) {
      ++hits;
    }
    Store(path);
    EntrySet came;
    std::uint64_t resident_positions = 0;
    std::uint64_t rejected = 0;
    for (std::size_t i = hits; i < path.size(); ++i) {
      if (!residents_.contains(path[i])) {
        ++rejected;
        continue;
      }
      ++resident_positions;
      if (!before.contains(path[i])) {
        came.insert(path[i]);
      }
    }
    Count(result_.lookups, path.size());
    Count(result_.lookup_tokens, request.input_tokens);
    Count(result_.hit_blocks, hits);
    Count(result_.hit_tokens, TokensOf(request, hits));
    Count(result_.hit_tokens_full_blocks,
          TokensOf(request, hits) - TokensOf(request, hits) % trace_.origin().block_tokens);
    Count(result_.requests_with_hit, hits > 0 ? 1 : 0);
    Count(result_.rejected, rejected);
    Count(result_.evictions, Missing(before, residents_));
    Count(result_.resident_misses, resident_positions - came.size());
  }

  void LookUpEach(const TraceRequest& request, const std::vector<EntryIndex>& path) {
    bool has_hit = false;
    for (std::uint32_t i = 0; i < path.size(); ++i) {
      const EntrySet before = residents_;
      Store({path[i]});
      Count(result_.lookups, 1);
      Count(result_.evictions, Missing(before, residents_));
      if (before.contains(path[i])) {
        const std::uint64_t tokens = TokensOf(request, i + 1) - TokensOf(request, i);
        has_hit = true;
        Count(result_.hit_blocks, 1);
        Count(result_.hit_tokens, tokens);
        Count(result_.hit_tokens_full_blocks, tokens == trace_.origin().block_tokens ? tokens : 0);
      } else {
        Count(result_.rejected, residents_.contains(path[i]) ? 0 : 1);
      }
    }
    Count(result_.lookup_tokens, request.input_tokens);
    Count(result_.requests_with_hit, has_hit ? 1 : 0);
  }

  void Store(const std::vector<EntryIndex>& path) {
    std::uint32_t leading = 0;
    while (leading < path.size() && residents_.contains(path[leading])) {
      ++leading;
    }
    policy_.OnRequest(Access{}, path, leading);
    for (std::size_t step = 0; step < path.size(); ++step) {
      const std::size_t position =
          policy_.touch_order() == TouchOrder::kHeadFirst ? step : path.size() - 1 - step;
      const EntryIndex entry = path[position];
      if (residents_.contains(entry)) {
        policy_.OnHit(std::span(path).subspan(position, 1));
        continue;
      }
      if (!policy_.Admit(entry)) {
        continue;
      }
      if (residents_.size() == options_.capacity_blocks) {
        const EntryIndex victim = policy_.TakeVictim([](EntryIndex) { return false; });
        residents_.erase(victim);
        policy_.OnRemove(victim, RemoveReason::kEvicted);
      }
      residents_.insert(entry);
      policy_.OnInsert(entry, position > 0 ? path[position - 1] : kNoEntry);
    }
  }

  const Trace& trace_;
  const CellOptions& options_;
  EvictionPolicy& policy_;
  EntrySet residents_;
  CellResult result_;
  bool is_counted_ = true;
};

// A part of a later request's path, for every other request.
std::vector<CellOptions::Output> MakeOutputs(const Trace& trace, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t count = trace.requests().size();
  std::vector<CellOptions::Output> outputs(count);
  for (std::size_t index = 0; index + 1 < count; index += 2) {
    const std::size_t successor = index + 1 + random() % (count - index - 1);
    outputs[index] = {.successor = static_cast<std::uint32_t>(successor),
                      .block_count = trace.requests()[successor].block_count};
  }
  return outputs;
}

// Runs of hits, words of eight residents and counts by difference must say what sets say, for
// policies that refuse, that break prefixes and that touch in either order.
TEST(CacheCellTest, CountsWhatSetsComparedBeforeAndAfterSay) {
  std::cout << "seeds 1 to 12\n";
  std::uint64_t resident_misses = 0;
  std::uint64_t rejected = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    for (const bool is_chained : {true, false}) {
      const Trace trace = testing::MakeRandomTrace(seed, is_chained, 80);
      const std::vector<CellOptions::Output> outputs = MakeOutputs(trace, seed);
      for (const std::string name : {"leaf-lru", "lru-head-first", "fifo", "lfu", "clock",
                                     "second-sight:leaf-lru", "adaptive:sieve"}) {
        for (const std::uint32_t capacity : {1U, 5U, 14U, 60U}) {
          SCOPED_TRACE(std::string(name).append(" at ").append(std::to_string(capacity)));
          SCOPED_TRACE(seed);
          CellOptions options;
          options.capacity_blocks = capacity;
          options.hit_rule = seed % 3 == 0 ? HitRule::kBlock : HitRule::kPrefix;
          options.warmup_requests = seed % 2 == 0 ? 20 : 0;
          if (seed % 4 >= 2) {
            options.outputs = outputs;
          }
          const PolicyOptions policy_options{.entries_max = trace.distinct_blocks(),
                                             .residents_max = capacity};
          auto policy = CreateEvictionPolicy(name, policy_options);
          auto other = CreateEvictionPolicy(name, policy_options);
          ASSERT_TRUE(policy.ok() && other.ok());
          const CellResult actual = CacheCell<EvictionPolicy>(trace, options, **policy).Run();
          const CellResult expected = NaiveCell(trace, options, **other).Run();

          testing::ExpectSameCounts(actual, expected);
          EXPECT_EQ(actual.lookup_tokens, expected.lookup_tokens);
          EXPECT_EQ(actual.hit_tokens_full_blocks, expected.hit_tokens_full_blocks);
          EXPECT_EQ(actual.capacity_blocks, capacity);
          resident_misses += actual.resident_misses;
          rejected += actual.rejected;
        }
      }
    }
  }
  EXPECT_GT(resident_misses, 100U);
  EXPECT_GT(rejected, 100U);
}

// Without warm-up and outputs every miss has one of three ends.
TEST(CacheCellTest, MissesAreRejectedEvictedOrResidentAtTheEnd) {
  const Trace trace = testing::MakeRandomTrace(9, true, 300);
  for (const HitRule hit_rule : {HitRule::kPrefix, HitRule::kBlock}) {
    CellOptions options;
    options.capacity_blocks = 17;
    options.hit_rule = hit_rule;
    policy::LeafLruPolicy policy({.entries_max = trace.distinct_blocks(), .residents_max = 17});
    const CellResult result = CacheCell(trace, options, policy).Run();

    EXPECT_EQ(result.lookups - result.hit_blocks,
              result.rejected + result.evictions + result.resident_end);
    EXPECT_EQ(result.resident_end, 17U);
  }
}

}  // namespace
}  // namespace kvferry::replay
