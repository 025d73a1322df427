// Buckets and ranks.
#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.h"

namespace kvferry {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kPercentScale = 1'000'000;  // Six decimals of a percent.

std::uint64_t Saturated(Wide value) {
  return value > UINT64_MAX ? UINT64_MAX : static_cast<std::uint64_t>(value);
}

}  // namespace

// A value of width w bits (w > 7) keeps its 7 leading bits, whose first is always set: so the other
// six number the bucket within the doubling w.
std::size_t Histogram::BucketOf(std::uint64_t value) {
  const auto width = static_cast<unsigned>(std::bit_width(value));
  if (width <= kExactBits) {
    return static_cast<std::size_t>(value);
  }
  const unsigned dropped_bits = width - kExactBits;
  const auto leading = static_cast<std::size_t>(value >> dropped_bits);
  return dropped_bits * kBucketsPerDoubling + leading;
}

std::uint64_t Histogram::GreatestOf(std::size_t bucket) {
  if (bucket < (std::size_t{1} << kExactBits)) {
    return bucket;
  }
  const std::size_t dropped_bits = bucket / kBucketsPerDoubling - 1;
  const std::uint64_t leading = bucket - dropped_bits * kBucketsPerDoubling;
  return (leading << dropped_bits) + ((std::uint64_t{1} << dropped_bits) - 1);
}

void Histogram::Record(std::uint64_t value, std::uint64_t times) {
  if (times == 0) {
    return;
  }
  counts_[BucketOf(value)] += times;
  count_ += times;
  sum_ = Saturated(Wide{value} * times + sum_);
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::Merge(const Histogram& other) {
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    counts_[bucket] += other.counts_[bucket];
  }
  count_ += other.count_;
  sum_ = Saturated(Wide{sum_} + other.sum_);
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

void Histogram::Clear() {
  *this = Histogram();
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

std::uint64_t Histogram::Percentile(double percent) const {
  KVFERRY_CHECK(percent >= 0);
  KVFERRY_CHECK(percent <= 100);
  if (count_ == 0) {
    return 0;
  }
  const auto share =
      static_cast<std::uint64_t>(std::llround(percent * static_cast<double>(kPercentScale)));
  const Wide whole = Wide{100} * kPercentScale;
  const auto rank = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>((Wide{share} * count_ + whole - 1) / whole));
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  while (seen + counts_[bucket] < rank) {
    seen += counts_[bucket];
    ++bucket;
  }
  // The extremes are known exactly, and no percentile lies outside of them.
  return std::clamp(GreatestOf(bucket), min_, max_);
}

}  // namespace kvferry
