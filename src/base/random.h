// Random: the seeded generator, the only source of chance; the same numbers on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace kvferry {

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): spreads a
// seed of any quality, 0 included, over 64-bit states. Thread-compatible.
class SplitMix64 {
 public:
  explicit constexpr SplitMix64(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
  }

 private:
  std::uint64_t state_;
};

// xoshiro256++ 1.0 (Blackman, Vigna: Scrambled Linear Pseudorandom Number Generators, 2021), its
// state filled by SplitMix64. Period 2^256 - 1. Not for secrets.
//
// What follows from a seed is part of the contract (golden values in the test), because recorded
// seeds must keep their meaning: everything here is integer arithmetic or rounds in one place only,
// so neither the machine nor its mathematical library shows. Thread-compatible.
class Random {
 public:
  explicit Random(std::uint64_t seed);

  // A generator whose numbers have nothing to do with this one's; takes one number from this one.
  Random Fork() { return Random(Next()); }

  // Uniform over all 64-bit numbers.
  std::uint64_t Next();
  // Uniform over 0 .. bound - 1 without bias (Lemire: Fast Random Integer Generation in an
  // Interval, 2019). `bound` must not be 0.
  std::uint64_t Below(std::uint64_t bound);
  // Uniform over low .. high, both included; low must not be above high.
  std::uint64_t Between(std::uint64_t low, std::uint64_t high);
  // Uniform over the 2^53 multiples of 2^-53 in [0, 1).
  double Fraction();
  // True with the given probability; never at 0, always at 1.
  bool Chance(double probability) { return Fraction() < probability; }
  // Exponential with mean 1, by von Neumann's comparison method (1951), which takes no logarithm.
  double Exponential();

 private:
  std::array<std::uint64_t, 4> state_{};
};

// Draws rank r of 0 .. ranks - 1 with a probability proportional to 1 / (r + 1)^exponent.
//
// Exact up to the rounding of the weights to 2^-38 of the first one (a rank below that gets one
// such unit). Eight bytes a rank; a draw is a binary search. Immutable, hence thread-safe.
class ZipfSampler {
 public:
  static constexpr std::uint32_t kRanksMax = std::uint32_t{1} << 24;

  // 1 <= ranks <= kRanksMax; exponent at least 0 (0: uniform) and finite.
  ZipfSampler(std::uint32_t ranks, double exponent);

  std::uint32_t Draw(Random& random) const;
  std::uint32_t ranks() const noexcept { return static_cast<std::uint32_t>(ends_.size()); }
  // The chance that Draw gives `rank`.
  double Probability(std::uint32_t rank) const;

 private:
  std::vector<std::uint64_t> ends_;  // Sums of the weights up to and with each rank.
};

}  // namespace kvferry
