// What the switched admission promises.
#include "policy/adaptive_policy.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "policy/leaf_lru_policy.h"
#include "policy/lfu_policy.h"
#include "tests/policy/live_owner.h"
#include "tests/policy/policy_harness.h"
#include "tests/policy/reference_policies.h"

namespace kvferry::policy {
namespace {

template <class Inner>
using Adaptive = testing::Behind<AdaptivePolicy, Inner>;

// Wrapped clocks, windows and the queue together must give what the definition says. The traces are
// long enough for several windows.
TEST(AdaptivePolicyTest, EqualsItsNaiveReferenceOnRandomTraces) {
  std::cout << "seeds 1 and 2\n";
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    for (const bool is_chained : {true, false}) {
      const replay::Trace trace = testing::MakeRandomTrace(seed, is_chained, 500);
      for (const replay::HitRule hit_rule : {replay::HitRule::kPrefix, replay::HitRule::kBlock}) {
        for (const std::uint32_t capacity : {1U, 6U, 15U, 50U}) {
          SCOPED_TRACE("seed " + std::to_string(seed) + ", capacity " + std::to_string(capacity));
          replay::CellOptions cell_options;
          cell_options.capacity_blocks = capacity;
          cell_options.hit_rule = hit_rule;
          const PolicyOptions options{.entries_max = trace.distinct_blocks(),
                                      .residents_max = capacity};
          testing::ExpectSameCell<Adaptive<LeafLruPolicy>,
                                  testing::NaiveAdaptive<testing::NaiveLeafLru>>(
              trace, cell_options, options);
          testing::ExpectSameCell<Adaptive<LfuPolicy>, testing::NaiveAdaptive<testing::NaiveLfu>>(
              trace, cell_options, options);
        }
      }
    }
  }
}

// A tier of a hundred blocks behind the policy, asked for one block at a time.
class SmallTier {
 public:
  static constexpr PolicyOptions kOptions{.entries_max = 20'000, .residents_max = 100};

  SmallTier() : policy_(std::make_unique<LeafLruPolicy>(kOptions), kOptions) {}

  const AdaptivePolicy& policy() const { return policy_; }

  void Ask(std::uint32_t number) {
    const EntryIndex entry{number};
    policy_.OnRequest(Access{}, {&entry, 1}, residents_.contains(entry) ? 1 : 0);
    if (residents_.contains(entry)) {
      policy_.OnHit({&entry, 1});
      return;
    }
    if (!policy_.Admit(entry)) {
      return;
    }
    if (residents_.size() == kOptions.residents_max) {
      const EntryIndex victim = policy_.TakeVictim([](EntryIndex) { return false; });
      residents_.erase(victim);
      policy_.OnRemove(victim, RemoveReason::kEvicted);
    }
    residents_.insert(entry);
    policy_.OnInsert(entry, kNoEntry);
  }

 private:
  AdaptivePolicy policy_;
  std::set<EntryIndex> residents_;
};

// It has to come on when one-time blocks wash out a loop that would fit without them, and to go off
// when every block returns once and soon, which it would lose.
TEST(AdaptivePolicyTest, TurnsOnUnderChurnAndOffWithoutIt) {
  SmallTier tier;
  EXPECT_FALSE(tier.policy().is_on());

  for (std::uint32_t i = 0; i < 5'000; ++i) {
    tier.Ask(1'000 + i);
    tier.Ask(i % 80);
  }
  EXPECT_TRUE(tier.policy().is_on());

  for (std::uint32_t i = 0; i < 5'000; ++i) {
    tier.Ask(10'000 + i);
    tier.Ask(10'000 + i);
  }
  EXPECT_FALSE(tier.policy().is_on());
}

// A switch within a request would let children in whose parents stay out.
TEST(AdaptivePolicyTest, KeepsTheLeafRuleOfTheInnerPolicy) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    const replay::Trace trace = testing::MakeRandomTrace(seed, true, 1'500);
    replay::CellOptions cell_options;
    cell_options.capacity_blocks = 25;
    Adaptive<LeafLruPolicy> policy({.entries_max = trace.distinct_blocks(), .residents_max = 25});

    EXPECT_EQ(replay::CacheCell<EvictionPolicy>(trace, cell_options, policy).Run().resident_misses,
              0U);
  }
}

// The same promise as for every policy.
TEST(AdaptivePolicyTest, PassesHeldBlocksAndGivesNumbersBack) {
  testing::ExpectLiveUseIsSound<Adaptive<LeafLruPolicy>>();
}

}  // namespace
}  // namespace kvferry::policy
