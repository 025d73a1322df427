// Histogram: how long things took, in fixed memory, with percentiles of a stated error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvferry {

// Counts whole numbers (nanoseconds, bytes) in buckets that grow with the value: exact below 128,
// above that 64 buckets to each doubling. A percentile is never below the true one and less than
// 1/64 (1.6 %) above it; count, least, greatest and sum are exact. About 30 KiB, no allocation.
//
// Thread-compatible.
class Histogram {
 public:
  void Record(std::uint64_t value) { Record(value, 1); }
  void Record(std::uint64_t value, std::uint64_t times);
  // Adds what `other` has counted.
  void Merge(const Histogram& other);
  void Clear();

  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t min() const noexcept {
    return count_ == 0 ? 0 : min_;
  }  // 0 where nothing is counted.
  std::uint64_t max() const noexcept { return max_; }
  std::uint64_t sum() const noexcept {
    return sum_;
  }                     // Stays at the greatest number once it is passed.
  double mean() const;  // 0 where nothing is counted.

  // Nearest rank: the ceil(percent x count / 100)-th smallest value, at least the first. `percent`
  // lies in 0 .. 100 and is taken to six decimals, so that 99.9 of 1,000 is the 999th. 0 where
  // nothing is counted.
  std::uint64_t Percentile(double percent) const;

 private:
  static constexpr unsigned kExactBits = 7;
  static constexpr std::size_t kBucketsPerDoubling = std::size_t{1} << (kExactBits - 1);
  static constexpr std::size_t kBuckets =
      (std::size_t{1} << kExactBits) + (64 - kExactBits) * kBucketsPerDoubling;

  static std::size_t BucketOf(std::uint64_t value);
  static std::uint64_t GreatestOf(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
};

}  // namespace kvferry
