// Medians of pairs of slices, who goes first, and sides that fail.
#include "bench/slice_pairs.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::bench {
namespace {

Slice SliceOf(double gbps, double cpu_us_per_mib = 0) {
  constexpr double kSeconds = 0.25;
  const auto bytes = static_cast<std::uint64_t>(gbps * 1e9 * kSeconds);
  return {.bytes = bytes,
          .seconds = kSeconds,
          .cpu_seconds = cpu_us_per_mib * 1e-6 * static_cast<double>(bytes) / (1 << 20)};
}

TEST(SlicePairsTest, MeasuresInTurnForAsLongAsItIsTold) {
  std::string order;
  const auto ours = [&]() -> Result<Slice> {
    order += 'o';
    return SliceOf(1.5, 30);
  };
  const auto bound = [&]() -> Result<Slice> {
    order += 'b';
    return SliceOf(2, 10);
  };

  const auto rates = MeasurePairs(2.5, ours, bound);

  ASSERT_OK(rates);
  EXPECT_EQ(order, "boobboobboob") << "a pair to warm up, then five of half a second";
  EXPECT_EQ(rates->pairs, 5U);
  EXPECT_DOUBLE_EQ(rates->gbps, 1.5);
  EXPECT_DOUBLE_EQ(rates->bound_gbps, 2);
  EXPECT_DOUBLE_EQ(rates->ratio, 0.75);
  EXPECT_NEAR(rates->cpu_us_per_mib, 30, 1e-3);
  EXPECT_NEAR(rates->bound_cpu_us_per_mib, 10, 1e-3);
}

TEST(SlicePairsTest, MeasuresSomePairsHoweverShortTheTime) {
  const auto side = []() -> Result<Slice> {
    return SliceOf(1);
  };
  const auto rates = MeasurePairs(1e-9, side, side);
  ASSERT_OK(rates);
  EXPECT_EQ(rates->pairs, kPairsMin);
}

// A machine that slows down for both must not count against either, nor one slice that went wrong.
TEST(SlicePairsTest, TakesTheMedianOfRatios) {
  std::vector<double> speeds{1, 1, 4, 4, 0.1, 0.1, 8, 8, 2, 2, 3, 3};
  std::size_t next = 0;
  std::size_t slices = 0;
  const auto ours = [&]() -> Result<Slice> {
    const double factor = ++slices == 3 ? 0.01 : 0.5;
    return SliceOf(speeds.at(next++) * factor);
  };
  const auto bound = [&]() -> Result<Slice> {
    return SliceOf(speeds.at(next++));
  };

  const auto rates = MeasurePairs(2.5, ours, bound);

  ASSERT_OK(rates);
  EXPECT_DOUBLE_EQ(rates->ratio, 0.5);
}

TEST(SlicePairsTest, GivesTheErrorOfEitherSide) {
  const auto good = []() -> Result<Slice> {
    return SliceOf(1);
  };
  int left = 3;
  const auto bad = [&]() -> Result<Slice> {
    if (--left == 0) {
      return Status::Error(StatusCode::kIoError, "it broke");
    }
    return SliceOf(1);
  };
  EXPECT_STATUS(MeasurePairs(9, bad, good), StatusCode::kIoError);
  left = 3;
  EXPECT_STATUS(MeasurePairs(9, good, bad), StatusCode::kIoError);
  const auto idle = []() -> Result<Slice> {
    return Slice{};
  };
  EXPECT_STATUS(MeasurePairs(9, good, idle), StatusCode::kInternal);
}

}  // namespace
}  // namespace kvferry::bench
