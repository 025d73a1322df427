// What admission on second sight promises.
#include "policy/second_sight_policy.h"

#include <cstdint>
#include <memory>

#include <gtest/gtest.h>

#include "policy/fifo_policy.h"
#include "policy/leaf_lru_policy.h"
#include "policy/sieve_policy.h"
#include "tests/policy/live_owner.h"
#include "tests/policy/policy_harness.h"
#include "tests/policy/reference_policies.h"

namespace kvferry::policy {
namespace {

template <class Inner>
using SecondSight = testing::Behind<SecondSightPolicy, Inner>;

// A queue of links that forgets the wrong number would admit other blocks.
TEST(SecondSightPolicyTest, EqualsItsNaiveReferenceOnRandomTraces) {
  testing::ExpectEqualsReference<SecondSight<LeafLruPolicy>,
                                 testing::NaiveSecondSight<testing::NaiveLeafLru>>(10);
  testing::ExpectEqualsReference<SecondSight<FifoPolicy>,
                                 testing::NaiveSecondSight<testing::NaiveFifo>>(5);
  testing::ExpectEqualsReference<SecondSight<SievePolicy>,
                                 testing::NaiveSecondSight<testing::NaiveSieve>>(5);
}

// A child stored without its parent takes a place in which it can never be hit.
TEST(SecondSightPolicyTest, KeepsTheLeafRuleOfTheInnerPolicy) {
  std::uint64_t evictions = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const replay::Trace trace = testing::MakeRandomTrace(seed, true, 300);
    replay::CellOptions cell_options;
    cell_options.capacity_blocks = 12;
    SecondSight<LeafLruPolicy> policy(
        {.entries_max = trace.distinct_blocks(), .residents_max = 12, .remembered_max = 20});
    const replay::CellResult result =
        replay::CacheCell<EvictionPolicy>(trace, cell_options, policy).Run();

    EXPECT_EQ(result.resident_misses, 0U);
    evictions += result.evictions;
  }
  EXPECT_GT(evictions, 1'000U);
}

// A number that both the queue and the inner policy know must come back when the last forgets it.
TEST(SecondSightPolicyTest, PassesHeldBlocksAndGivesNumbersBack) {
  testing::ExpectLiveUseIsSound<SecondSight<LeafLruPolicy>>();
}

// What failed was never whole; having seen it says nothing about its content.
TEST(SecondSightPolicyTest, ForgetsAtOnceWhatWasErased) {
  const PolicyOptions options{.entries_max = 4, .residents_max = 2, .reports_forgotten = true};
  SecondSightPolicy policy(std::make_unique<LeafLruPolicy>(options), options);
  const EntryIndex entry{3};
  EXPECT_FALSE(policy.Admit(entry));
  EXPECT_TRUE(policy.Admit(entry));
  policy.OnInsert(entry, kNoEntry);
  policy.OnRemove(entry, RemoveReason::kErased);

  EntryIndex freed = kNoEntry;
  EXPECT_FALSE(policy.has_seen(entry));
  EXPECT_EQ(policy.Forget({&freed, 1}), 1U);
  EXPECT_EQ(freed, entry);
}

}  // namespace
}  // namespace kvferry::policy
