// IndexSet against std::set.
#include "replay/index_set.h"

#include <cstdint>
#include <iostream>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace kvferry::replay {
namespace {

// A level that keeps a bit of an empty word, or loses one of a full word, gives a wrong largest.
TEST(IndexSetTest, EqualsAnOrderedSetAtEverySizeAroundItsLevels) {
  std::cout << "seed 5\n";
  std::mt19937_64 random(5);
  for (const std::uint64_t size : {1U, 2U, 63U, 64U, 65U, 4095U, 4096U, 4097U, 300'000U}) {
    SCOPED_TRACE(size);
    IndexSet set(size);
    std::set<std::uint64_t> expected;
    EXPECT_TRUE(set.is_empty());
    for (int step = 0; step < 4'000; ++step) {
      const std::uint64_t index =
          random() % 3 == 0 && !expected.empty() ? *expected.rbegin() : random() % size;
      if (expected.contains(index)) {
        set.Erase(index);
        expected.erase(index);
      } else {
        set.Insert(index);
        expected.insert(index);
      }
      ASSERT_EQ(set.is_empty(), expected.empty());
      ASSERT_EQ(set.contains(index), expected.contains(index));
      if (!expected.empty()) {
        ASSERT_EQ(set.Max(), *expected.rbegin());
      }
    }
  }
}

}  // namespace
}  // namespace kvferry::replay
