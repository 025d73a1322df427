// Names to policies, and what is said about names that are none.
#include "policy/policy_registry.h"

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::policy {
namespace {

constexpr PolicyOptions kOptions{.entries_max = 8, .residents_max = 4};

// A policy that is in the table and cannot be made by its name would be missing from a report.
TEST(PolicyRegistryTest, MakesEveryListedNameAloneAndBehindAdmission) {
  const std::vector<std::string_view> names = EvictionPolicyNames();
  EXPECT_EQ(names.front(), "leaf-lru");
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
  for (const std::string_view name : names) {
    for (const std::string_view prefix : {"", "second-sight:", "adaptive:"}) {
      SCOPED_TRACE(std::string(prefix).append(name));
      EXPECT_OK(CreateEvictionPolicy(std::string(prefix).append(name), kOptions));
    }
  }
}

// The reader must see what can be typed instead.
TEST(PolicyRegistryTest, RefusesAnUnknownNameWithTheKnownOnes) {
  for (const std::string_view name :
       {"", "lru", "LEAF-LRU", "min", "second-sight:", "second-sight:lru",
        "adaptive:", "second-sight:adaptive:fifo", "fifo:second-sight"}) {
    const auto created = CreateEvictionPolicy(name, kOptions);
    EXPECT_STATUS(created, StatusCode::kInvalidArgument);
    const std::string message(created.status().message());
    EXPECT_THAT(message, ::testing::HasSubstr(std::string("'").append(name).append("'")));
    EXPECT_THAT(message, ::testing::HasSubstr("leaf-lru, lru-head-first, fifo"));
    EXPECT_THAT(message, ::testing::HasSubstr("second-sight:"));
  }
}

// Whoever read of MIN must learn why an engine has none, not that they mistyped it.
TEST(PolicyRegistryTest, SaysThatMinIsForReplaysOnly) {
  for (const std::string_view name : {"min", "second-sight:min"}) {
    const std::string message(CreateEvictionPolicy(name, kOptions).status().message());
    EXPECT_THAT(message, ::testing::HasSubstr("MIN (Belady) needs to know the future"));
    EXPECT_THAT(message, ::testing::HasSubstr("kvferry replay"));
    EXPECT_THAT(message, ::testing::HasSubstr("use one of leaf-lru, "));
  }
  EXPECT_THAT(std::string(CreateEvictionPolicy("minimal", kOptions).status().message()),
              ::testing::HasSubstr("is not a policy; known are leaf-lru"));
}

// A tier without a block, or numbers that would collide with sentinels, must not reach a policy.
TEST(PolicyRegistryTest, RefusesOptionsOutOfRange) {
  EXPECT_STATUS(CreateEvictionPolicy("fifo", {.entries_max = 8, .residents_max = 0}),
                StatusCode::kInvalidArgument);
  EXPECT_STATUS(CreateEvictionPolicy("fifo", {.entries_max = 0, .residents_max = 4}),
                StatusCode::kInvalidArgument);
  EXPECT_STATUS(CreateEvictionPolicy("fifo", {.entries_max = 0xffffffff, .residents_max = 4}),
                StatusCode::kInvalidArgument);
}

// A visitor that only ever saw the interface would pay for dispatch in the replay's loop.
TEST(PolicyRegistryTest, VisitsTheConcreteClass) {
  int calls = 0;
  EXPECT_OK(VisitPolicy("sieve", kOptions, [&](auto& policy) {
    ++calls;
    EXPECT_TRUE((std::is_same_v<std::remove_reference_t<decltype(policy)>, SievePolicy>));
  }));
  EXPECT_OK(VisitPolicy("adaptive:sieve", kOptions, [&](auto& policy) {
    ++calls;
    EXPECT_TRUE((std::is_same_v<std::remove_reference_t<decltype(policy)>, EvictionPolicy>));
  }));
  EXPECT_STATUS(VisitPolicy("none", kOptions, [&](auto& /*policy*/) { ++calls; }),
                StatusCode::kInvalidArgument);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace kvferry::policy
