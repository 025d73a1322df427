// What the default policy promises: its order of victims, the leaf rule, its bounds, its results.
#include "policy/auto_policy.h"

#include <gtest/gtest.h>

#include "tests/policy/live_owner.h"

namespace kvferry::policy {
namespace {

TEST(AutoPolicyTest, LiveUseIsSound) {
  testing::ExpectLiveUseIsSound<AutoPolicy>();
}

}  // namespace
}  // namespace kvferry::policy
