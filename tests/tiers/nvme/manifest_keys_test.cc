// Keys sort as what they name, and only they are understood.
#include "tiers/nvme/manifest_keys.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry::tiers {
namespace {

constexpr std::uint64_t kLastLife = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kLastPage = std::numeric_limits<std::uint32_t>::max();

// A scan in order of keys is promised to be one in order of places.
TEST(ManifestKeysTest, SortAsThePlacesDo) {
  const std::vector<BlockPlace> places = {
      {{0, 0}, 0}, {{0, 0}, 255},       {{0, 0}, 256},
      {{0, 1}, 0}, {{0, kLastLife}, 0}, {{0, kLastLife}, kLastPage},
      {{1, 0}, 0}, {{256, 2}, 1},       {{kLastPage, 256}, 9}};
  for (std::size_t i = 1; i < places.size(); ++i) {
    EXPECT_LT(places[i - 1], places[i]);
    EXPECT_LT(BlockRowKey(places[i - 1]), BlockRowKey(places[i])) << i;
  }
}

TEST(ManifestKeysTest, ComeBack) {
  const BlockPlace place = {{0x01020304, 0x05060708090a0b0c}, 0x0d0e0f10};
  EXPECT_EQ(BlockRowKey(place),
            "b\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
  EXPECT_EQ(ParseBlockRowKey(BlockRowKey(place)), place);
}

TEST(ManifestKeysTest, AreNotUnderstoodWithAnotherLengthOrPrefix) {
  const std::string key = BlockRowKey({{1, 2}, 3});
  EXPECT_FALSE(ParseBlockRowKey(key + "x"));
  EXPECT_FALSE(ParseBlockRowKey(key.substr(1)));
  EXPECT_FALSE(ParseBlockRowKey(""));
  EXPECT_FALSE(ParseBlockRowKey(MetaRowKey(key.substr(1))));
}

TEST(ManifestKeysTest, OfOneLifeAreOneRange) {
  const KeyRange range = BlockRowKeysOf({7, kLastLife});
  EXPECT_LE(range.begin, BlockRowKey({{7, kLastLife}, 0}));
  EXPECT_GT(range.end, BlockRowKey({{7, kLastLife}, kLastPage}));
  EXPECT_GT(range.begin, BlockRowKey({{7, kLastLife - 1}, kLastPage}));
  EXPECT_LT(range.end, BlockRowKey({{8, 0}, 0}));
}

}  // namespace
}  // namespace kvferry::tiers
