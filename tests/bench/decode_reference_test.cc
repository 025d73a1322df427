// The values that everything is computed from, and attention over them in double precision.
#include "bench/decode_reference.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "bench/decode_values.h"

namespace kvferry::bench {
namespace {

std::vector<BFloat16> TokenOf(const DecodeValues& values, const DecodeValues::Place& place) {
  std::vector<BFloat16> token(values.shape().token_bytes() / sizeof(BFloat16));
  values.WriteToken(place, token);
  return token;
}

TEST(DecodeValuesTest, DifferInEveryPartOfTheirPlaceAndComeAgain) {
  // Rows that are alike would hide a block that came back to the wrong place.
  const DecodeShape shape;
  const DecodeValues values(shape, 7);
  const DecodeValues::Place place{.session = 3, .layer = 1, .plane = 0, .token = 20};
  const std::vector<BFloat16> token = TokenOf(values, place);
  EXPECT_EQ(token, TokenOf(DecodeValues(shape, 7), place));
  EXPECT_NE(token, TokenOf(DecodeValues(shape, 8), place));
  for (DecodeValues::Place other : {DecodeValues::Place{4, 1, 0, 20},
                                    {3, 0, 0, 20},
                                    {3, 1, 1, 20},
                                    {3, 1, 0, 21},
                                    {20, 1, 0, 3}}) {
    EXPECT_NE(token, TokenOf(values, other));
  }
  std::vector<BFloat16> both(2 * token.size());
  values.WriteTokens({.session = 3, .layer = 1, .plane = 0, .token = 19}, both);
  EXPECT_EQ(
      std::vector<BFloat16>(both.begin() + static_cast<std::ptrdiff_t>(token.size()), both.end()),
      token);
}

TEST(DecodeValuesTest, AreMultiplesThatBFloat16HasExactly) {
  const DecodeValues values(DecodeShape(), 1);
  double sum = 0;
  double squares = 0;
  std::size_t count = 0;
  for (std::uint32_t number = 0; number < 100; ++number) {
    for (const BFloat16 bits :
         TokenOf(values, {.session = 0, .layer = 0, .plane = 1, .token = number})) {
      const double value = double{ToFloat(bits)};
      ASSERT_EQ(value * 64, std::nearbyint(value * 64));
      ASSERT_GE(value, -2);
      ASSERT_LT(value, 2);
      sum += value;
      squares += value * value;
      ++count;
    }
  }
  EXPECT_NEAR(sum / static_cast<double>(count), 0, 0.1);
  EXPECT_NEAR(squares / static_cast<double>(count), 4.0 / 3, 0.1);
}

TEST(DecodeReferenceTest, OfOneTokenIsItsValue) {
  const DecodeShape shape;
  const DecodeValues values(shape, 5);
  const auto token = TokenOf(values, {.session = 2, .layer = 1, .plane = 1, .token = 0});
  // Query heads 2 and 3 belong to KV head 1.
  const std::vector<double> output =
      AttendInDouble(values, {.session = 2, .layer = 1, .query_head = 3, .tokens = 1});
  ASSERT_EQ(output.size(), shape.value_width);
  for (std::size_t e = 0; e < output.size(); ++e) {
    EXPECT_DOUBLE_EQ(output[e], double{ToFloat(token[shape.key_width + e])}) << e;
  }
}

TEST(DecodeReferenceTest, WeighsTwoTokensByTheirLogits) {
  const DecodeShape shape;
  const DecodeValues values(shape, 5);
  std::vector<BFloat16> queries(std::size_t{shape.query_heads} * shape.key_width);
  values.WriteQuery(0, 1, queries);
  double logits[2] = {};
  for (std::uint32_t token = 0; token < 2; ++token) {
    const auto key = TokenOf(values, {.session = 0, .layer = 0, .plane = 0, .token = token});
    for (std::size_t e = 0; e < shape.key_width; ++e) {
      logits[token] += double{ToFloat(queries[e])} * double{ToFloat(key[e])} / 8;  // Of 64: 8.
    }
  }
  const double share = 1 / (1 + std::exp(logits[1] - logits[0]));
  const auto first = TokenOf(values, {.session = 0, .layer = 0, .plane = 1, .token = 0});
  const auto second = TokenOf(values, {.session = 0, .layer = 0, .plane = 1, .token = 1});
  const std::vector<double> output =
      AttendInDouble(values, {.session = 0, .layer = 0, .query_head = 0, .tokens = 2});
  for (std::size_t e = 0; e < output.size(); ++e) {
    EXPECT_NEAR(output[e],
                share * double{ToFloat(first[e])} + (1 - share) * double{ToFloat(second[e])}, 1e-12)
        << e;
  }
}

TEST(DecodeReferenceTest, ErrorsAreSharesOfTheLargestOutput) {
  const std::vector<double> expected{0.5, -2.0};
  const std::vector<BFloat16> exact{0x3f00, 0xc000};
  EXPECT_EQ(RelativeError(expected, exact), 0);
  EXPECT_EQ(RelativeError(expected, std::vector<BFloat16>{0x3f80, 0xc000}), 0.25);
  EXPECT_EQ(RelativeError(expected, std::vector<BFloat16>{0x7fc0, 0xc000}),
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace kvferry::bench
