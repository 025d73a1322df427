// What SIEVE promises.
#include "policy/sieve_policy.h"

#include <gtest/gtest.h>

#include "tests/policy/live_owner.h"
#include "tests/policy/policy_harness.h"
#include "tests/policy/reference_policies.h"

namespace kvferry::policy {
namespace {

// Moving whole chains, groups or a hand must not change a single decision.
TEST(SievePolicyTest, EqualsItsNaiveReferenceOnRandomTraces) {
  testing::ExpectEqualsReference<SievePolicy, testing::NaiveSieve>();
}

// A held block that is named, or a number that never comes back, would stop a live tier.
TEST(SievePolicyTest, PassesHeldBlocksAndGivesNumbersBack) {
  testing::ExpectLiveUseIsSound<SievePolicy>();
}

}  // namespace
}  // namespace kvferry::policy
