// Codes and scales against a reference in double precision.
#include "gpu/kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/gpu/kernels/kernel_bench.h"
#include "tests/support/sanitizers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::KernelBench;
using kvferry::testing::RandomValues;
using kvferry::testing::Suffix;
using kvferry::testing::Value;

template <class Element>
class GpuQuantizeTest : public ::testing::Test {};
using Elements = ::testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(GpuQuantizeTest, Elements);

// The largest step between neighbouring codes at `value`, as a share of the group's largest.
double StepAt(CodeFormat format, double value, double largest) {
  switch (format) {
    case CodeFormat::kInt8:
      return largest / 127;
    case CodeFormat::kInt4:
      return largest / 7;
    case CodeFormat::kE4m3:
      break;
  }
  // Three bits of mantissa; the smallest normal is 2^-6 of a scale of 448.
  const double scaled = std::max(std::fabs(value) / largest * 448, std::ldexp(1.0, -6));
  return std::ldexp(1.0, std::ilogb(scaled) - 3) * largest / 448;
}

template <class Element>
void CheckRows(CodeFormat format, std::uint64_t seed) {
  Random random(seed);
  const std::int64_t groups = static_cast<std::int64_t>(random.Between(1, 9));
  const std::int32_t group_size = 2 * static_cast<std::int32_t>(random.Between(1, 70));
  const std::size_t count = static_cast<std::size_t>(groups * group_size);
  std::vector<Element> values = RandomValues<Element>(random, count);
  if (random.Chance(0.3)) {
    std::fill_n(values.begin(), group_size, testing::As<Element>(0.0F));
  }
  KernelBench bench;
  RowCodes rows;
  rows.values = bench.Upload(values);
  rows.codes = bench.Upload(std::vector<unsigned char>(count, 0xEE));
  rows.scales = bench.Upload(std::vector<float>(static_cast<std::size_t>(groups), -1.0F));
  rows.groups = groups;
  rows.group_size = group_size;
  rows.format = format;
  bench.Run("kvferry_quantize_rows_" + Suffix<Element>(), ShapeOf(rows), rows);
  const auto scales = bench.Download(rows.scales, static_cast<std::size_t>(groups));
  auto* const back = bench.Upload(std::vector<Element>(count));
  rows.values = back;
  bench.Run("kvferry_dequantize_rows_" + Suffix<Element>(), ShapeOf(rows), rows);
  const auto decoded = bench.Download(back, count);

  const double code_max = format == CodeFormat::kE4m3 ? 448 : format == CodeFormat::kInt8 ? 127 : 7;
  for (std::size_t group = 0; group < static_cast<std::size_t>(groups); ++group) {
    const std::size_t start = group * static_cast<std::size_t>(group_size);
    double largest = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(group_size); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(Value(values[start + i]))));
    }
    ASSERT_NEAR(scales[group], largest / code_max, 1e-6 * largest) << "seed " << seed;
    for (std::size_t i = start; i < start + static_cast<std::size_t>(group_size); ++i) {
      const double value = Value(values[i]);
      // Half a step of the code, and half a unit of the element's own last place.
      const double bound =
          largest == 0 ? 0 : 0.5 * StepAt(format, value, largest) + std::fabs(value) / 250;
      ASSERT_LE(std::fabs(value - Value(decoded[i])), bound) << "seed " << seed << " at " << i;
    }
  }
}

TYPED_TEST(GpuQuantizeTest, RowsComeBackWithinHalfAStep) {
  // For FP8, INT8 and INT4, groups of any even size, groups of zeros among them.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(20); ++seed) {
    CheckRows<TypeParam>(CodeFormat::kE4m3, seed);
    CheckRows<TypeParam>(CodeFormat::kInt8, 100 + seed);
    CheckRows<TypeParam>(CodeFormat::kInt4, 200 + seed);
  }
}

TYPED_TEST(GpuQuantizeTest, ChannelsHaveTheReferencesCodes) {
  // An outlier in one channel must not cost the others their precision.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(20); ++seed) {
    Random random(seed);
    const auto planes = static_cast<std::size_t>(random.Between(1, 3));
    const auto tokens = static_cast<std::size_t>(random.Between(1, 17));
    const auto channels = static_cast<std::size_t>(random.Between(1, 150));
    const std::size_t count = planes * tokens * channels;
    auto values = RandomValues<TypeParam>(random, count);
    for (std::size_t i = 0; i < count; i += channels) {
      values[i] = testing::As<TypeParam>(Value(values[i]) * 100);
    }
    KernelBench bench;
    ChannelCodes codes;
    codes.values = bench.Upload(values);
    codes.codes = bench.Upload(std::vector<signed char>(count, 55));
    codes.scales = bench.Upload(std::vector<float>(planes * channels, -1.0F));
    codes.planes = static_cast<std::int32_t>(planes);
    codes.tokens = static_cast<std::int32_t>(tokens);
    codes.channels = static_cast<std::int32_t>(channels);
    bench.Run("kvferry_quantize_channels_" + Suffix<TypeParam>(), ShapeOf(codes), codes);
    const auto made = bench.Download(codes.codes, count);
    const auto scales = bench.Download(codes.scales, planes * channels);
    auto* const back = bench.Upload(std::vector<TypeParam>(count));
    codes.values = back;
    bench.Run("kvferry_dequantize_channels_" + Suffix<TypeParam>(), ShapeOf(codes), codes);
    const auto decoded = bench.Download(back, count);

    for (std::size_t row = 0; row < planes * channels; ++row) {
      const std::size_t first = row / channels * tokens * channels + row % channels;
      double largest = 0;
      for (std::size_t token = 0; token < tokens; ++token) {
        largest = std::max(largest,
                           std::fabs(static_cast<double>(Value(values[first + token * channels]))));
      }
      ASSERT_NEAR(scales[row], largest / 127, 1e-6 * largest) << "seed " << seed;
      for (std::size_t token = 0; token < tokens; ++token) {
        const std::size_t i = first + token * channels;
        const double exact = largest == 0 ? 0 : Value(values[i]) * 127 / largest;
        // A tie may go either way by the rounding of the quotient.
        ASSERT_LE(std::fabs(made[i] - exact), 0.5 + 1e-4) << "seed " << seed << " at " << i;
        ASSERT_NEAR(Value(decoded[i]), made[i] * static_cast<double>(scales[row]), largest / 250)
            << "seed " << seed << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace kvferry::gpu
