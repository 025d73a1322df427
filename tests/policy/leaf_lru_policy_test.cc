// What leaf-LRU promises.
#include "policy/leaf_lru_policy.h"

#include <gtest/gtest.h>

#include "tests/policy/policy_harness.h"
#include "tests/policy/reference_policies.h"

namespace kvferry::policy {
namespace {

// Moving whole chains, groups or a hand must not change a single decision.
TEST(LeafLruPolicyTest, EqualsItsNaiveReferenceOnRandomTraces) {
  testing::ExpectEqualsReference<LeafLruPolicy, testing::NaiveLeafLru>();
}

}  // namespace
}  // namespace kvferry::policy
