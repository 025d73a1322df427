// Keys turned on by a shift, against keys that were rotated for the new position at once.
#include "gpu/kernels/rotate_keys.h"

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
class GpuRotateKeysTest : public ::testing::Test {};
using Elements = ::testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(GpuRotateKeysTest, Elements);

TYPED_TEST(GpuRotateKeysTest, ShiftsPositionsAndLeavesTheRestAlone) {
  // In both pairings, for MLA's partial rows, with values' planes in between.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(30); ++seed) {
    Random random(seed);
    KeyRotation rotation;
    const auto small = [&random](std::uint64_t low, std::uint64_t high) {
      return static_cast<std::int32_t>(random.Between(low, high));
    };
    const std::int32_t blocks = small(1, 3);
    rotation.plane_count = small(1, 4);
    rotation.plane_step = small(1, 2);
    rotation.plane_first = small(0, static_cast<std::uint64_t>(rotation.plane_count - 1));
    rotation.rows = small(1, 5);
    rotation.rotary_size = 2 * small(1, 16);
    rotation.rotary_first = small(0, 6);
    rotation.row_size = rotation.rotary_first + rotation.rotary_size + small(0, 4);
    rotation.is_interleaved = random.Chance(0.5);
    const auto pairs = static_cast<std::size_t>(rotation.rotary_size / 2);
    const auto row_size = static_cast<std::size_t>(rotation.row_size);
    const std::size_t plane_size = static_cast<std::size_t>(rotation.rows) * row_size;
    const std::size_t count = static_cast<std::size_t>(blocks * rotation.plane_count) * plane_size;
    const auto keys = RandomValues<TypeParam>(random, count);
    std::vector<float> turns;
    std::vector<double> angles;
    for (std::int32_t block = 0; block < blocks; ++block) {
      const double shift = small(0, 200000) - 100000.0;
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        angles.push_back(shift *
                         std::pow(1e4, -static_cast<double>(pair) / static_cast<double>(pairs)));
        turns.push_back(static_cast<float>(std::cos(angles.back())));
        turns.push_back(static_cast<float>(std::sin(angles.back())));
      }
    }
    KernelBench bench;
    auto* const device = bench.Upload(keys);
    rotation.blocks = device;
    rotation.turns = bench.Upload(turns);

    bench.Run("kvferry_rotate_keys_" + Suffix<TypeParam>(),
              ShapeOf(rotation, static_cast<std::uint32_t>(blocks)), rotation);

    const auto turned = bench.Download(device, count);
    std::vector<double> expected(count);
    std::transform(keys.begin(), keys.end(), expected.begin(),
                   [](TypeParam key) { return static_cast<double>(Value(key)); });
    for (std::size_t row = 0; row < count / row_size; ++row) {
      const auto plane = static_cast<std::int32_t>(row * row_size / plane_size);
      const std::int32_t in_block = plane % rotation.plane_count - rotation.plane_first;
      if (in_block < 0 || in_block % rotation.plane_step != 0) {
        continue;
      }
      const auto block = static_cast<std::size_t>(plane / rotation.plane_count);
      double* const start =
          expected.data() + row * row_size + static_cast<std::size_t>(rotation.rotary_first);
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        double& x = start[rotation.is_interleaved ? 2 * pair : pair];
        double& y = start[rotation.is_interleaved ? 2 * pair + 1 : pair + pairs];
        const double angle = angles[block * pairs + pair];
        const double was = x;
        x = was * std::cos(angle) - y * std::sin(angle);
        y = was * std::sin(angle) + y * std::cos(angle);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(Value(turned[i]), expected[i], std::fabs(expected[i]) / 250 + 1e-5)
          << "seed " << seed << " at " << i;
    }
  }
}

}  // namespace
}  // namespace kvferry::gpu
