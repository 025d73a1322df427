// What the default policy promises: its order of victims, the leaf rule, its bounds.
#include "policy/auto_policy.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policy/leaf_lru_policy.h"
#include "replay/cache_cell.h"
#include "replay/read_trace.h"
#include "replay/trace.h"
#include "tests/policy/live_owner.h"
#include "tests/policy/naive_comparison.h"
#include "tests/support/shared_traces.h"

namespace kvferry::policy {
namespace {

using replay::CacheCell;
using replay::CellOptions;
using replay::CellResult;
using replay::Trace;

// Passes everything on, and checks each victim against a search through all blocks.
class VictimChecker final : public EvictionPolicy {
 public:
  VictimChecker(const Trace& trace, const PolicyOptions& options)
      : trace_(trace), options_(options), policy_(options) {}

  const std::vector<std::set<EntryIndex>>& residents_before() const { return residents_before_; }
  std::uint64_t victims() const { return victims_; }
  std::uint64_t refusals() const { return refusals_; }

  TouchOrder touch_order() const noexcept override { return policy_.touch_order(); }
  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    EXPECT_LE(policy_.departed_count(), options_.remembered_max + trace_.path_blocks_max());
    residents_before_.push_back(residents_);
    policy_.OnRequest(access, path, leading_resident);
    path_.assign(path.begin(), path.end());
  }
  void OnHit(std::span<const EntryIndex> run) override { policy_.OnHit(run); }
  bool Admit(EntryIndex entry) override {
    const bool admits = policy_.Admit(entry);
    if (!admits) {
      ++refusals_;
      // Refused only where the cache is full and no leaf but the request's own is worth less.
      EXPECT_EQ(residents_.size(), options_.residents_max);
    } else {
      EXPECT_TRUE(trace_.parent(entry) == kNoEntry || residents_.contains(trace_.parent(entry)));
    }
    return admits;
  }
  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    policy_.OnInsert(entry, parent);
    residents_.insert(entry);
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    const EntryIndex victim = policy_.TakeVictim(is_held);
    ++victims_;
    EXPECT_TRUE(IsLeaf(victim));
    for (const EntryIndex resident : residents_) {
      if (IsLeaf(resident) && resident != Frontier()) {
        EXPECT_LE(policy_.WorthOf(victim), policy_.WorthOf(resident));
      }
    }
    return victim;
  }
  void OnRemove(EntryIndex entry, RemoveReason reason) override {
    residents_.erase(entry);
    policy_.OnRemove(entry, reason);
  }
  std::size_t Forget(std::span<EntryIndex> freed) override { return policy_.Forget(freed); }

 private:
  bool IsLeaf(EntryIndex entry) const {
    return residents_.contains(entry) &&
           std::none_of(residents_.begin(), residents_.end(),
                        [&](EntryIndex other) { return trace_.parent(other) == entry; });
  }
  // The deepest resident block of the request: the parent of what comes in.
  EntryIndex Frontier() const {
    EntryIndex deepest = kNoEntry;
    for (const EntryIndex entry : path_) {
      if (!residents_.contains(entry)) {
        break;
      }
      deepest = entry;
    }
    return deepest;
  }

  const Trace& trace_;
  PolicyOptions options_;
  AutoPolicy policy_;
  std::vector<EntryIndex> path_;
  std::set<EntryIndex> residents_;
  std::vector<std::set<EntryIndex>> residents_before_;
  std::uint64_t victims_ = 0;
  std::uint64_t refusals_ = 0;
};

// Small enough that the order of the leaves is made for every request, so it must be exact.
TEST(AutoPolicyTest, EvictsTheLeafOfLeastWorthAndKeepsPrefixes) {
  std::uint64_t victims = 0;
  std::uint64_t refusals = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Trace trace = testing::RandomTrace(seed, true, 200);
    for (const std::uint32_t capacity : {1U, 3U, 8U, 20U}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", capacity " + std::to_string(capacity));
      VictimChecker checker(trace, {.entries_max = trace.distinct_blocks(),
                                    .residents_max = capacity,
                                    .remembered_max = 2 * capacity});
      CellOptions options;
      options.capacity_blocks = capacity;
      CacheCell<VictimChecker>(trace, options, checker).Run();
      for (const std::set<EntryIndex>& residents : checker.residents_before()) {
        for (const EntryIndex entry : residents) {
          ASSERT_TRUE(trace.parent(entry) == kNoEntry || residents.contains(trace.parent(entry)));
        }
      }
      victims += checker.victims();
      refusals += checker.refusals();
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(victims, 0U);
  EXPECT_GT(refusals, 0U);
}

// Nothing is drawn: the same victims whatever the seed.
TEST(AutoPolicyTest, ReplaysToTheSameVictims) {
  const Trace trace = testing::RandomTrace(7, true, 2'000);
  CellOptions options;
  options.capacity_blocks = 50;
  const auto run = [&](std::uint64_t seed) {
    AutoPolicy policy({.entries_max = trace.distinct_blocks(), .residents_max = 50, .seed = seed});
    return CacheCell<AutoPolicy>(trace, options, policy).Run();
  };
  const CellResult first = run(1);
  const CellResult second = run(2);
  EXPECT_EQ(first.hit_blocks, second.hit_blocks);
  EXPECT_EQ(first.evictions, second.evictions);
  EXPECT_EQ(first.rejected, second.rejected);
}

// Ids that contradict a tree, repeated ids and single references must only cost hits.
TEST(AutoPolicyTest, SurvivesTracesThatAreNoTree) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const bool is_chained : {true, false}) {
      const Trace trace = testing::RandomTrace(seed, is_chained, 300);
      for (const replay::HitRule rule : {replay::HitRule::kPrefix, replay::HitRule::kBlock}) {
        for (const std::uint32_t capacity : {1U, 2U, 7U, 40U}) {
          SCOPED_TRACE("seed " + std::to_string(seed) + ", capacity " + std::to_string(capacity));
          AutoPolicy policy({.entries_max = trace.distinct_blocks(), .residents_max = capacity});
          CellOptions options;
          options.capacity_blocks = capacity;
          options.hit_rule = rule;
          const CellResult result = CacheCell<AutoPolicy>(trace, options, policy).Run();
          EXPECT_EQ(
              result.lookups - result.hit_blocks,
              result.rejected + result.evictions + result.resident_misses + result.resident_end);
        }
      }
    }
  }
}

TEST(AutoPolicyTest, LiveUseIsSound) {
  testing::ExpectLiveUseIsSound<AutoPolicy>();
}

// A clock that goes back must not make a block older or younger than it is.
TEST(AutoPolicyTest, TakesTimesThatGoBackAsStandingStill) {
  AutoPolicy policy({.entries_max = 4, .residents_max = 2});
  const std::array<EntryIndex, 2> path = {EntryIndex{0}, EntryIndex{1}};
  policy.OnRequest({.now = Instant(std::chrono::seconds(100)), .request = 1}, path, 0);
  ASSERT_TRUE(policy.Admit(path[0]));
  policy.OnInsert(path[0], kNoEntry);
  const double worth = policy.WorthOf(path[0]);
  policy.OnRequest({.now = Instant(std::chrono::seconds(10)), .request = 2}, {}, 0);
  EXPECT_EQ(policy.WorthOf(path[0]), worth);
  policy.OnRequest({.now = Instant(std::chrono::seconds(200)), .request = 3}, {}, 0);
  EXPECT_LT(policy.WorthOf(path[0]), worth);
}

// A request that grows is no reuse: its blocks stay one conversation's first turn.
TEST(AutoPolicyTest, AGrownRequestIsNotAReuse) {
  AutoPolicy grown({.entries_max = 8, .residents_max = 8});
  AutoPolicy whole({.entries_max = 8, .residents_max = 8});
  const std::array<EntryIndex, 4> path = {EntryIndex{0}, EntryIndex{1}, EntryIndex{2},
                                          EntryIndex{3}};
  const auto store = [](AutoPolicy& policy, const Access& access,
                        std::span<const EntryIndex> blocks, std::size_t resident) {
    policy.OnRequest(access, blocks, static_cast<std::uint32_t>(resident));
    policy.OnHit(blocks.first(resident));
    for (std::size_t i = resident; i < blocks.size(); ++i) {
      ASSERT_TRUE(policy.Admit(blocks[i]));
      policy.OnInsert(blocks[i], i > 0 ? blocks[i - 1] : kNoEntry);
    }
  };
  const Access access{.now = Instant(std::chrono::seconds(1)), .request = 1};
  store(grown, access, std::span(path).first(2), 0);
  store(grown, access, path, 2);
  store(whole, access, path, 0);
  for (const EntryIndex entry : path) {
    EXPECT_EQ(grown.WorthOf(entry), whole.WorthOf(entry));
  }
}

CellResult Play(const Trace& trace, std::uint32_t capacity, bool is_auto) {
  const PolicyOptions policy_options{.entries_max = trace.distinct_blocks(),
                                     .residents_max = capacity};
  CellOptions options;
  options.capacity_blocks = capacity;
  if (is_auto) {
    AutoPolicy policy(policy_options);
    return CacheCell<AutoPolicy>(trace, options, policy).Run();
  }
  LeafLruPolicy policy(policy_options);
  return CacheCell<LeafLruPolicy>(trace, options, policy).Run();
}

// Never worse than leaf-LRU by more than 0.2 percentage points, on a trace at these capacities.
void ExpectNeverMuchWorseThanLeafLru(const std::string& relative,
                                     const std::vector<std::uint32_t>& percents) {
  replay::ReadOptions read_options;
  read_options.paths = {testing::SharedPath(relative).string()};
  const Result<Trace> trace = replay::ReadTrace(read_options, [](const replay::ReadProgress&) {});
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  for (const std::uint32_t percent : percents) {
    const auto capacity =
        static_cast<std::uint32_t>(std::uint64_t{trace->distinct_blocks()} * percent / 100);
    const CellResult by_auto = Play(*trace, capacity, true);
    const CellResult by_lru = Play(*trace, capacity, false);
    EXPECT_GE(static_cast<double>(by_auto.hit_blocks),
              static_cast<double>(by_lru.hit_blocks) - 0.002 * static_cast<double>(by_lru.lookups))
        << percent << " %";
    if (percent <= 5 && relative.find("ragpulse") == std::string::npos) {
      EXPECT_GT(by_auto.hit_blocks, by_lru.hit_blocks) << percent << " %";
    }
  }
}

TEST(AutoPolicyTest, IsNeverMuchWorseThanLeafLruOnConversation) {
  KVFERRY_REQUIRE_SHARED("traces/mooncake-conversation/conversation_trace.jsonl");
  ExpectNeverMuchWorseThanLeafLru("traces/mooncake-conversation/conversation_trace.jsonl",
                                  {1, 2, 5, 10, 25, 50});
}

TEST(AutoPolicyTest, IsNeverMuchWorseThanLeafLruOnRagpulse) {
  KVFERRY_REQUIRE_SHARED("traces/ragpulse/d0-4_blk64.jsonl");
  ExpectNeverMuchWorseThanLeafLru("traces/ragpulse/d0-4_blk64.jsonl", {1, 2, 5, 10, 25, 50});
}

TEST(AutoPolicyTest, IsNeverMuchWorseThanLeafLruOnTwentyMinutesOfAgents) {
  KVFERRY_REQUIRE_SHARED("traces/agentic-coding/merged_first20min.jsonl");
  ExpectNeverMuchWorseThanLeafLru("traces/agentic-coding/merged_first20min.jsonl",
                                  {1, 2, 5, 10, 25, 50});
}

// Three capacities, for the time that it takes; docs/policies.md has the others.
TEST(AutoPolicyTest, IsNeverMuchWorseThanLeafLruOnAgents) {
  KVFERRY_REQUIRE_SHARED("traces/agentic-coding/merged.jsonl.zst");
  ExpectNeverMuchWorseThanLeafLru("traces/agentic-coding/merged.jsonl.zst", {1, 10, 25});
}

}  // namespace
}  // namespace kvferry::policy
