// Histogram: exact counts, percentiles within the stated error, for small and for huge values.
#include "base/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/random.h"

namespace kvferry {
namespace {

// The ceil(p n / 100)-th smallest of `values`, for p in whole thousandths of a percent.
std::uint64_t NearestRank(std::vector<std::uint64_t> values, std::uint64_t thousandths) {
  std::sort(values.begin(), values.end());
  const std::uint64_t rank = (thousandths * values.size() + 99'999) / 100'000;
  return values[std::max<std::uint64_t>(rank, 1) - 1];
}

TEST(HistogramTest, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.min(), 0U);
  EXPECT_EQ(histogram.max(), 0U);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.Percentile(50), 0U);
}

TEST(HistogramTest, IsExactForSmallValues) {
  Histogram histogram;
  std::vector<std::uint64_t> values;
  for (std::uint64_t value = 0; value < 128; ++value) {
    histogram.Record(value, value % 5);
    values.insert(values.end(), value % 5, value);
  }
  for (std::uint64_t thousandths = 0; thousandths <= 100'000; thousandths += 500) {
    EXPECT_EQ(histogram.Percentile(static_cast<double>(thousandths) / 1000),
              NearestRank(values, thousandths));
  }
}

// 99.9 x 1,000 / 100 is a little above 999 in binary fractions; the rank must not become 1,000.
TEST(HistogramTest, DoesNotRoundARankUp) {
  Histogram histogram;
  histogram.Record(1, 999);
  histogram.Record(100, 1);
  EXPECT_EQ(histogram.Percentile(99.9), 1U);
  EXPECT_EQ(histogram.Percentile(99.90001), 100U);
  EXPECT_EQ(histogram.Percentile(0), 1U);
  EXPECT_EQ(histogram.Percentile(100), 100U);
}

TEST(HistogramTest, KeepsTheExtremesExactly) {
  Histogram histogram;
  histogram.Record(1'000'003);
  EXPECT_EQ(histogram.Percentile(50), 1'000'003U);
  histogram.Record(UINT64_MAX);
  EXPECT_EQ(histogram.max(), UINT64_MAX);
  EXPECT_EQ(histogram.Percentile(100), UINT64_MAX);
  EXPECT_EQ(histogram.min(), 1'000'003U);
  EXPECT_EQ(histogram.sum(), UINT64_MAX);  // It would have wrapped.
}

RC_GTEST_PROP(HistogramTest,
              StaysWithinTheStatedError,
              (std::vector<std::uint64_t> drawn, std::uint8_t shift)) {
  std::vector<std::uint64_t> values = {1};
  Histogram histogram;
  histogram.Record(1);
  SplitMix64 widths(shift);
  for (const std::uint64_t value : drawn) {
    values.push_back(value << (widths.Next() % 64));
    histogram.Record(values.back());
  }

  for (const std::uint64_t thousandths :
       {0UL, 1'000UL, 10'000UL, 50'000UL, 90'000UL, 99'000UL, 99'999UL, 100'000UL}) {
    const std::uint64_t exact = NearestRank(values, thousandths);
    const std::uint64_t found = histogram.Percentile(static_cast<double>(thousandths) / 1000);
    RC_ASSERT(found >= exact);
    RC_ASSERT(found - exact <= exact / 64);
  }
}

// Threads keep histograms of their own; together they must say what one would have said.
TEST(HistogramTest, MergingEqualsRecordingTogether) {
  Random random(7);
  Histogram whole;
  Histogram first;
  Histogram second;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = random.Next() >> random.Below(64);
    whole.Record(value);
    (i % 3 == 0 ? first : second).Record(value);
  }
  first.Merge(second);
  first.Merge(Histogram());

  EXPECT_EQ(first.count(), whole.count());
  EXPECT_EQ(first.min(), whole.min());
  EXPECT_EQ(first.max(), whole.max());
  EXPECT_EQ(first.sum(), whole.sum());
  for (int percent = 0; percent <= 100; ++percent) {
    EXPECT_EQ(first.Percentile(percent), whole.Percentile(percent));
  }
  first.Clear();
  EXPECT_EQ(first.count(), 0U);
  EXPECT_EQ(first.Percentile(99), 0U);
}

TEST(HistogramDeathTest, RefusesAPercentileThatIsNone) {
  const Histogram histogram;
  EXPECT_DEATH((void)histogram.Percentile(100.1), "percent <= 100");
  EXPECT_DEATH((void)histogram.Percentile(std::nan("")), "percent >= 0");
}

}  // namespace
}  // namespace kvferry
