// The generator's steps and the distributions over it.
#include "base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kvferry {
namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

Random::Random(std::uint64_t seed) {
  SplitMix64 spread(seed);
  for (std::uint64_t& word : state_) {
    word = spread.Next();
  }
}

std::uint64_t Random::Next() {
  const std::uint64_t drawn = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return drawn;
}

std::uint64_t Random::Below(std::uint64_t bound) {
  KVFERRY_CHECK(bound > 0);
  // The high half of draw x bound is the result. Of the 2^64 draws each result has floor or ceil of
  // 2^64 / bound; rejecting the first 2^64 mod bound low halves leaves the floor for all.
  Wide product = Wide{Next()} * bound;
  auto low_half = static_cast<std::uint64_t>(product);
  if (low_half < bound) {
    const std::uint64_t rejected = (0 - bound) % bound;
    while (low_half < rejected) {
      product = Wide{Next()} * bound;
      low_half = static_cast<std::uint64_t>(product);
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t Random::Between(std::uint64_t low, std::uint64_t high) {
  KVFERRY_CHECK(low <= high);
  const std::uint64_t width = high - low;
  return width == UINT64_MAX ? Next() : low + Below(width + 1);
}

double Random::Fraction() {
  return static_cast<double>(Next() >> 11) * 0x1.0p-53;
}

double Random::Exponential() {
  // A run of draws that fall from the first one on has an odd length with probability exp(-first):
  // then the first is the fractional part. Each even run adds one to the whole part.
  double whole = 0;
  while (true) {
    const double first = Fraction();
    double previous = first;
    bool is_odd = true;
    double next = Fraction();
    while (next < previous) {
      previous = next;
      is_odd = !is_odd;
      next = Fraction();
    }
    if (is_odd) {
      return whole + first;
    }
    whole += 1;
  }
}

ZipfSampler::ZipfSampler(std::uint32_t ranks, double exponent) : ends_(ranks) {
  KVFERRY_CHECK(ranks > 0);
  KVFERRY_CHECK(ranks <= kRanksMax);
  KVFERRY_CHECK(std::isfinite(exponent));
  KVFERRY_CHECK(exponent >= 0);
  std::uint64_t sum = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    // Rounding to whole units hides the last digits of pow, in which machines differ.
    const double weight = std::pow(static_cast<double>(rank) + 1, -exponent) * 0x1.0p38;
    sum += std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(weight)));
    ends_[rank] = sum;
  }
}

std::uint32_t ZipfSampler::Draw(Random& random) const {
  const std::uint64_t drawn = random.Below(ends_.back());
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), drawn);
  return static_cast<std::uint32_t>(end - ends_.begin());
}

double ZipfSampler::Probability(std::uint32_t rank) const {
  KVFERRY_CHECK(rank < ends_.size());
  const std::uint64_t begin = rank == 0 ? 0 : ends_[rank - 1];
  return static_cast<double>(ends_[rank] - begin) / static_cast<double>(ends_.back());
}

}  // namespace kvferry
