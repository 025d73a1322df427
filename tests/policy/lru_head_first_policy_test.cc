// What LRU promises.
#include "policy/lru_head_first_policy.h"

#include <gtest/gtest.h>

#include "tests/policy/policy_harness.h"
#include "tests/policy/reference_policies.h"

namespace kvferry::policy {
namespace {

// Moving whole chains, groups or a hand must not change a single decision.
TEST(LruHeadFirstPolicyTest, EqualsItsNaiveReferenceOnRandomTraces) {
  testing::ExpectEqualsReference<LruHeadFirstPolicy, testing::NaiveLruHeadFirst>();
}

}  // namespace
}  // namespace kvferry::policy
