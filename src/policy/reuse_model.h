// ReuseModel: how soon blocks of a kind come back, learned from the traffic itself.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvferry::policy {

// What is known of a piece of a path when a request touches it.
struct ReuseTraits {
  std::uint32_t touches = 0;       // Requests that named the piece, this one included.
  std::uint32_t turn = 0;          // Requests of this conversation before this one.
  std::uint32_t added_blocks = 0;  // How much longer than what was known the request is.
  std::int64_t gap_ns = -1;    // Since the conversation's last request; negative: none is known.
  bool is_last_block = false;  // The piece is the path's last block, which may be a partial one.
};

// Survival analysis of reuse ages, by class. A class is a leaf of a small fixed tree of traits;
// each class keeps, by age, how much came back at that age and how much was watched until then
// (Kaplan and Meier, JASA 53, 1958). Pieces that wait still count as watched: without them a young
// class looks dead. A class with few observations leans on its parent in the tree, the root on the
// hazard of the age before.
//
// From the hazards follows the worth of keeping a block of that class at that age: the largest,
// over all horizons, of
//   P(it comes back before the horizon) / E[time it is held until it comes back or the horizon]
// This is the hit density of LHD (Beckmann, Chen, Cidon, NSDI 2018) with the horizon chosen as in
// Gittins' index; a block whose worth is below that of one that wants its place should go.
//
// Ages are in buckets, four to an octave. Counts fade with each Refresh, so that the model follows
// a drift. Every sum is taken in a fixed order: equal calls give equal bits.
//
// Thread-compatible.
class ReuseModel {
 public:
  static constexpr std::uint32_t kAges = 72;

  ReuseModel();

  static std::uint32_t AgeBucket(std::int64_t age_ns) {
    const auto units = static_cast<std::uint64_t>(age_ns < 0 ? 0 : age_ns) >> kUnitBits;
    if (units < kAgesPerOctave) {
      return static_cast<std::uint32_t>(units);
    }
    const auto octave = static_cast<std::uint32_t>(std::bit_width(units)) - kAgeBits - 1;
    const auto part = static_cast<std::uint32_t>(units >> octave) - kAgesPerOctave;
    const std::uint32_t bucket = (octave + 1) * kAgesPerOctave + part;
    return bucket < kAges ? bucket : kAges - 1;
  }
  // The least age of a bucket, in seconds; kAges has one too, the end of the last.
  static double AgeOf(std::uint32_t bucket);

  static std::uint32_t ClassOf(const ReuseTraits& traits);

  // Part of a path came back at this age; `share` of its whole path, so that a request weighs as
  // much as any other: the blocks of a path are no independent observations.
  void CountReuse(std::uint32_t reuse_class, std::uint32_t age, double share);
  // Part of a path is no longer watched from this age on.
  void CountUnwatched(std::uint32_t reuse_class, std::uint32_t age, double share);

  // Refresh: CountWaiting for every piece that is watched still, then FinishRefresh, which computes
  // the worths anew and lets the counts fade.
  void BeginRefresh();
  void CountWaiting(std::uint32_t reuse_class, std::uint32_t age, double share);
  void FinishRefresh();

  // Hits a block-second, by the last refresh.
  double WorthOf(std::uint32_t reuse_class, std::uint32_t age) const {
    return worth_[std::size_t{reuse_class} * kAges + age];
  }
  std::size_t memory_bytes() const noexcept {
    return classes_.size() * sizeof(ReuseClass) + worth_.size() * sizeof(double);
  }
  // The chance that what has waited until this age comes back within the bucket.
  double HazardOf(std::uint32_t reuse_class, std::uint32_t age) const {
    return classes_[reuse_class].hazard[age];
  }

 private:
  static constexpr std::uint32_t kUnitBits = 27;  // 2^27 ns: 134 ms.
  static constexpr std::uint32_t kAgeBits = 2;
  static constexpr std::uint32_t kAgesPerOctave = 1U << kAgeBits;

  using ByAge = std::array<double, kAges>;

  struct ReuseClass {
    std::uint32_t parent = 0;
    bool is_seen = false;
    ByAge reused{};   // Came back at this age.
    ByAge ended{};    // Watched until this age, whether it came back or not.
    ByAge waiting{};  // As `ended`, of what is watched still.
    ByAge hazard{};
  };

  void CountEnd(std::uint32_t reuse_class,
                std::uint32_t age,
                double weight,
                ByAge ReuseClass::*where);
  void EstimateHazards(std::uint32_t reuse_class);
  void ComputeWorths(std::uint32_t reuse_class);

  std::vector<ReuseClass> classes_;  // A parent's number is below its children's.
  std::vector<double> worth_;        // By class, then age.
  std::array<double, kAges> width_s_{};
};

}  // namespace kvferry::policy
