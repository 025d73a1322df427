// Tables on huge pages: their elements, their place in memory, and who owns them.
#include "base/huge_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

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

TEST(HugeArrayTest, HasZeroBytesWhereTheyAreAskedFor) {
  for (const std::size_t size : {3UL, 262'144UL, 1'000'001UL}) {
    HugeArray<Pair> pairs(size, kZeroBytes);
    EXPECT_EQ(pairs.size(), size);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_EQ(pairs[i].first, 0U) << i;
      pairs[i].first = 1;
    }
    HugeArray<Pair> target;
    target = std::move(pairs);
    EXPECT_EQ(target[size - 1].first, 1U);
  }
}

TEST(HugeArrayTest, TakesNoMemoryForZeroBytesBeforeTheyAreTouched) {
  constexpr std::size_t kHugePageBytes = 2 << 20;
  HugeArray<Pair> pairs(8 << 20, kZeroBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pairs.data()) % kHugePageBytes, 0U);
  pairs[pairs.size() - 1].first = 1;

  std::vector<unsigned char> are_resident(pairs.size_bytes() / 4096);
  ASSERT_EQ(::mincore(pairs.data(), pairs.size_bytes(), are_resident.data()), 0);
  const auto resident = std::count_if(are_resident.begin(), are_resident.end(),
                                      [](unsigned char page) { return (page & 1U) != 0; });
  EXPECT_GE(resident, 1);
  EXPECT_LE(static_cast<std::size_t>(resident), kHugePageBytes / 4096);
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
