// How many bytes may be written by when.
#include "engine/write_budget.h"

#include <chrono>

#include <gtest/gtest.h>

namespace kvferry::engine {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
const Instant kStart{std::chrono::hours(5)};

TEST(WriteBudgetTest, WithoutABudgetItOnlyCounts) {
  WriteBudget budget(0);
  budget.Spend(kMebibyte);
  EXPECT_TRUE(budget.Allows(kStart, ~std::uint64_t{0}));
  EXPECT_EQ(budget.bytes_written(), kMebibyte);
}

TEST(WriteBudgetTest, AnHoursShareMayGoAtOnceAndComesBackEvenly) {
  WriteBudget budget(24 * kMebibyte);
  ASSERT_TRUE(budget.Allows(kStart, kMebibyte));
  budget.Spend(kMebibyte);

  EXPECT_FALSE(budget.Allows(kStart, kMebibyte));
  EXPECT_FALSE(budget.Allows(kStart + std::chrono::minutes(29), kMebibyte / 2));
  EXPECT_TRUE(budget.Allows(kStart + std::chrono::minutes(31), kMebibyte / 2));
  EXPECT_TRUE(budget.Allows(kStart + std::chrono::hours(10), kMebibyte));
  budget.Spend(kMebibyte);
  EXPECT_FALSE(budget.Allows(kStart + std::chrono::hours(10), kMebibyte)) << "more than an hour's";
}

// What has to be written whatever the budget is paid for afterwards.
TEST(WriteBudgetTest, WhatWasNotAllowedIsOwed) {
  WriteBudget budget(24 * kMebibyte);
  ASSERT_TRUE(budget.Allows(kStart, 1));
  budget.Spend(3 * kMebibyte);
  EXPECT_FALSE(budget.Allows(kStart + std::chrono::minutes(119), kMebibyte / 100));
  EXPECT_TRUE(budget.Allows(kStart + std::chrono::minutes(122), kMebibyte / 100));
}

// Or such a block would never be written.
TEST(WriteBudgetTest, ABlockLargerThanAnHoursShareWaitsForTheWholeShare) {
  WriteBudget budget(24 * kMebibyte);
  ASSERT_TRUE(budget.Allows(kStart, 64 * kMebibyte));
}

}  // namespace
}  // namespace kvferry::engine
