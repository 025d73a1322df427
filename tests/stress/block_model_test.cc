// Versions of keys, and which bytes they allow.
#include "stress/block_model.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry::stress {
namespace {

// Wrong bytes that pass for right ones.
TEST(BlockModelTest, TellsVersionsAndKeysApart) {
  BlockModel model(2, 4);
  std::vector<std::byte> bytes(1'003);

  model.FillBytes(3, 5, bytes);

  EXPECT_TRUE(model.IsOneOf(3, 5, 5, bytes));
  EXPECT_TRUE(model.IsOneOf(3, 2, 7, bytes));
  EXPECT_FALSE(model.IsOneOf(3, 0, 4, bytes));
  EXPECT_FALSE(model.IsOneOf(2, 5, 5, bytes));
  bytes.back() ^= std::byte{1};
  EXPECT_FALSE(model.IsOneOf(3, 5, 5, bytes));
}

TEST(BlockModelTest, AnErasureThatNoPutOverlapsEndsTheVersion) {
  BlockModel model(1, 1);
  model.BeginPut(0);
  model.EndPut(0);

  model.BeginErase(0);
  model.EndErase(0);

  EXPECT_EQ(model.VersionOf(0), 1U);
}

// What a put brings in after the erasure has looked would count as wrong bytes.
TEST(BlockModelTest, APutThatOverlapsAnErasureKeepsTheVersion) {
  BlockModel before(1, 1);
  before.BeginPut(0);
  before.BeginErase(0);
  before.EndPut(0);
  before.EndErase(0);
  EXPECT_EQ(before.VersionOf(0), 0U);

  BlockModel within(1, 1);
  within.BeginErase(0);
  within.BeginPut(0);
  within.EndPut(0);
  within.EndErase(0);
  EXPECT_EQ(within.VersionOf(0), 0U);
}

TEST(BlockModelTest, AnErasureThatEndedEarlyProvesNothing) {
  BlockModel model(1, 1);

  model.BeginErase(0);
  model.GiveUpErase(0);

  EXPECT_EQ(model.VersionOf(0), 0U);
}

// A store that forgot an erasure, and yet kept what was persisted later, would mix the two.
TEST(BlockModelTest, WhatIsPersistedMakesEarlierErasuresOfItsNamespaceDurable) {
  BlockModel model(1, 2);
  model.EraseNamespace(0);
  model.EndPersist(0, model.DisturbancesOf(0));

  model.Crash();

  EXPECT_EQ(model.OldestOf(0), 1U);
  EXPECT_EQ(model.OldestOf(1), 0U);
}

TEST(BlockModelTest, ErasingANamespaceEndsTheVersionsOfItsKeysOnly) {
  BlockModel model(2, 2);

  model.EraseNamespace(1);

  EXPECT_EQ(model.VersionOf(1), 0U);
  EXPECT_EQ(model.VersionOf(2), 1U);
  EXPECT_EQ(model.VersionOf(3), 1U);
  EXPECT_EQ(model.NamespaceOf(3), 1U);
}

}  // namespace
}  // namespace kvferry::stress
