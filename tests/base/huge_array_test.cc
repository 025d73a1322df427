// Tables on huge pages: their elements, their place in memory, and who owns them.
#include "base/huge_array.h"

#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

struct Pair {
  std::uint32_t first = 7;
  std::uint32_t second = 0;
};

TEST(HugeArrayTest, InitialisesEveryElement) {
  HugeArray<Pair> pairs(1'000'000);

  EXPECT_EQ(pairs.size(), 1'000'000U);
  EXPECT_EQ(pairs.size_bytes(), 8'000'000U);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_EQ(pairs[i].first, 7U) << i;
  }
}

TEST(HugeArrayTest, BeginsALargeTableOnAHugePageAndASmallOneOnALine) {
  const HugeArray<Pair> large(1 << 20);
  const HugeArray<Pair> small(3);

  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % (2 << 20), 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data()) % 64, 0U);
}

TEST(HugeArrayTest, MovesItsMemory) {
  HugeArray<Pair> source(5);
  source[4].second = 9;
  Pair* const place = source.data();

  HugeArray<Pair> target;
  target = std::move(source);

  EXPECT_EQ(target.data(), place);
  EXPECT_EQ(target[4].second, 9U);
}

}  // namespace
}  // namespace kvferry
