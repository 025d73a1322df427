// What FIFO promises.
#include "policy/fifo_policy.h"

#include <gtest/gtest.h>

#include "tests/policy/live_owner.h"
#include "tests/policy/policy_harness.h"
#include "tests/policy/reference_policies.h"

namespace kvferry::policy {
namespace {

// Moving whole chains, groups or a hand must not change a single decision.
TEST(FifoPolicyTest, EqualsItsNaiveReferenceOnRandomTraces) {
  testing::ExpectEqualsReference<FifoPolicy, testing::NaiveFifo>();
}

// A held block that is named, or a number that never comes back, would stop a live tier.
TEST(FifoPolicyTest, PassesHeldBlocksAndGivesNumbersBack) {
  testing::ExpectLiveUseIsSound<FifoPolicy>();
}

}  // namespace
}  // namespace kvferry::policy
