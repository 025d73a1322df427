// The tree of classes, hazards from counts, and worths from hazards.
#include "policy/reuse_model.h"

#include <algorithm>
#include <cmath>

namespace kvferry::policy {
namespace {

// How many requests' worth of observations of its own a class needs to weigh as much as its parent.
constexpr double kParentWeight = 30;
constexpr double kRootWeight = 4;
// Hazard that the first bucket of the root is given, and what remains of a hazard from one bucket
// to the next where nothing was observed: less and less, so that unknown traffic is ordered by age.
constexpr double kFirstHazard = 0.05;
constexpr double kHazardCarry = 0.9;
constexpr double kFade = 0.97;
// Below this chance of being there still, a longer horizon changes nothing.
constexpr double kSurvivalMin = 1e-4;

// Layout of the tree: the root, then levels in breadth order.
constexpr std::uint32_t kTurns = 4;
constexpr std::uint32_t kAdded = 9;
constexpr std::uint32_t kGaps = 5;
constexpr std::uint32_t kTouches = 5;

constexpr std::uint32_t kRoot = 0;
constexpr std::uint32_t kBody = 1;
constexpr std::uint32_t kLast = 2;
constexpr std::uint32_t kShared = 3;
constexpr std::uint32_t kBodyTurn = 4;
constexpr std::uint32_t kLastTurn = kBodyTurn + kTurns;
constexpr std::uint32_t kSharedTouches = kLastTurn + kTurns;
constexpr std::uint32_t kBodyAdded = kSharedTouches + kTouches;
constexpr std::uint32_t kSharedTurn = kBodyAdded + kTurns * kAdded;
constexpr std::uint32_t kBodyGap = kSharedTurn + kTouches * kTurns;
constexpr std::uint32_t kClasses = kBodyGap + kTurns * kAdded * kGaps;

std::uint32_t TurnLevel(std::uint32_t turn) {
  return turn <= 1 ? turn : turn <= 4 ? 2 : 3;
}

std::uint32_t TouchesLevel(std::uint32_t touches) {
  return touches <= 1 ? 0 : touches == 2 ? 1 : touches <= 5 ? 2 : touches <= 19 ? 3 : 4;
}

std::uint32_t GapLevel(std::int64_t gap_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  if (gap_ns < 0) {
    return 0;
  }
  return gap_ns < 12 * kSecond ? 1 : gap_ns < 25 * kSecond ? 2 : gap_ns < 90 * kSecond ? 3 : 4;
}

std::uint32_t ParentOf(std::uint32_t reuse_class) {
  if (reuse_class < kBodyTurn) {
    return kRoot;
  }
  if (reuse_class < kLastTurn) {
    return kBody;
  }
  if (reuse_class < kSharedTouches) {
    return kLast;
  }
  if (reuse_class < kBodyAdded) {
    return kShared;
  }
  if (reuse_class < kSharedTurn) {
    return kBodyTurn + (reuse_class - kBodyAdded) / kAdded;
  }
  if (reuse_class < kBodyGap) {
    return kSharedTouches + (reuse_class - kSharedTurn) / kTurns;
  }
  return kBodyAdded + (reuse_class - kBodyGap) / kGaps;
}

}  // namespace

ReuseModel::ReuseModel() : classes_(kClasses), worth_(std::size_t{kClasses} * kAges) {
  for (std::uint32_t age = 0; age < kAges; ++age) {
    width_s_[age] = AgeOf(age + 1) - AgeOf(age);
  }
  for (std::uint32_t reuse_class = 1; reuse_class < kClasses; ++reuse_class) {
    classes_[reuse_class].parent = ParentOf(reuse_class);
  }
  BeginRefresh();
  FinishRefresh();
}

double ReuseModel::AgeOf(std::uint32_t bucket) {
  constexpr double kUnitSeconds = static_cast<double>(1U << kUnitBits) * 1e-9;
  if (bucket < kAgesPerOctave) {
    return bucket * kUnitSeconds;
  }
  const std::uint32_t octave = bucket / kAgesPerOctave - 1;
  const std::uint64_t units = std::uint64_t{kAgesPerOctave + bucket % kAgesPerOctave} << octave;
  return static_cast<double>(units) * kUnitSeconds;
}

std::uint32_t ReuseModel::ClassOf(const ReuseTraits& traits) {
  const std::uint32_t turn = TurnLevel(traits.turn);
  if (traits.is_last_block) {
    return kLastTurn + turn;
  }
  // Named more often than its conversation has turns: several conversations share it.
  if (traits.touches > traits.turn + 2) {
    return kSharedTurn + TouchesLevel(traits.touches) * kTurns + turn;
  }
  const auto added =
      std::min(static_cast<std::uint32_t>(std::bit_width(traits.added_blocks)), kAdded - 1);
  return kBodyGap + (turn * kAdded + added) * kGaps + GapLevel(traits.gap_ns);
}

void ReuseModel::CountEnd(std::uint32_t reuse_class,
                          std::uint32_t age,
                          double weight,
                          ByAge ReuseClass::*where) {
  // Watched through half of the bucket on average.
  for (;; reuse_class = classes_[reuse_class].parent) {
    ByAge& counts = classes_[reuse_class].*where;
    counts[age] += 0.5 * weight;
    if (age > 0) {
      counts[age - 1] += 0.5 * weight;
    }
    classes_[reuse_class].is_seen = true;
    if (reuse_class == kRoot) {
      return;
    }
  }
}

void ReuseModel::CountReuse(std::uint32_t reuse_class, std::uint32_t age, double share) {
  for (;; reuse_class = classes_[reuse_class].parent) {
    classes_[reuse_class].reused[age] += share;
    classes_[reuse_class].ended[age] += share;
    classes_[reuse_class].is_seen = true;
    if (reuse_class == kRoot) {
      return;
    }
  }
}

void ReuseModel::CountUnwatched(std::uint32_t reuse_class, std::uint32_t age, double share) {
  CountEnd(reuse_class, age, share, &ReuseClass::ended);
}

void ReuseModel::BeginRefresh() {
  for (ReuseClass& reuse_class : classes_) {
    reuse_class.waiting.fill(0);
  }
}

void ReuseModel::CountWaiting(std::uint32_t reuse_class, std::uint32_t age, double share) {
  CountEnd(reuse_class, age, share, &ReuseClass::waiting);
}

void ReuseModel::FinishRefresh() {
  for (std::uint32_t reuse_class = 0; reuse_class < kClasses; ++reuse_class) {
    if (reuse_class != kRoot && !classes_[reuse_class].is_seen) {
      const std::uint32_t parent = classes_[reuse_class].parent;
      classes_[reuse_class].hazard = classes_[parent].hazard;
      std::copy_n(worth_.begin() + parent * kAges, kAges, worth_.begin() + reuse_class * kAges);
      continue;
    }
    EstimateHazards(reuse_class);
    ComputeWorths(reuse_class);
    for (std::uint32_t age = 0; age < kAges; ++age) {
      classes_[reuse_class].reused[age] *= kFade;
      classes_[reuse_class].ended[age] *= kFade;
    }
  }
}

void ReuseModel::EstimateHazards(std::uint32_t reuse_class) {
  ReuseClass& counts = classes_[reuse_class];
  ByAge watched;
  double sum = 0;
  for (std::uint32_t age = kAges; age-- > 0;) {
    sum += counts.ended[age] + counts.waiting[age];
    watched[age] = sum;
  }
  const double prior_weight = reuse_class == kRoot ? kRootWeight : kParentWeight;
  double before = kFirstHazard;
  for (std::uint32_t age = 0; age < kAges; ++age) {
    const double prior =
        reuse_class == kRoot ? kHazardCarry * before : classes_[counts.parent].hazard[age];
    counts.hazard[age] =
        (counts.reused[age] + prior_weight * prior) / (watched[age] + prior_weight);
    before = counts.hazard[age];
  }
}

void ReuseModel::ComputeWorths(std::uint32_t reuse_class) {
  const ByAge& hazards = classes_[reuse_class].hazard;
  for (std::uint32_t age = 0; age < kAges; ++age) {
    double survival = 1;
    double reused = 0;
    double held_s = 0;
    // The best horizon so far, as a fraction: a division for each horizon would be most of the
    // cost.
    double best_reused = 0;
    double best_held_s = 1;
    double share = 0.5;  // The block is in the middle of its bucket.
    for (std::uint32_t until = age; until < kAges && survival >= kSurvivalMin; ++until) {
      const double hazard = share * hazards[until];
      reused += survival * hazard;
      held_s += survival * share * width_s_[until] * (1 - 0.5 * hazard);
      survival *= 1 - hazard;
      if (reused * best_held_s > best_reused * held_s) {
        best_reused = reused;
        best_held_s = held_s;
      }
      share = 1;
    }
    worth_[std::size_t{reuse_class} * kAges + age] = best_reused / best_held_s;
  }
}

}  // namespace kvferry::policy
