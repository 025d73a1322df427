// AdaptivePolicy: second-sight admission in front of any policy, while churn makes it pay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kvferry/policy.h"

#include "policy/entry_list.h"
#include "policy/second_sight_policy.h"

namespace kvferry::policy {

// Second sight gains hits where blocks that are never used again push out those that are, and
// loses each block's first return where they do not. Which it is shows in two clocks of
// insertions: one that counts what a cache without admission would have stored, one what a cache
// behind second sight would have. A cache of C blocks keeps a block for about C ticks of its
// clock, so with the two readings at its last touch every reference says whether either cache
// would have had the block, whichever way admission stands.
//
// After each window of references (twice the residents, at least 1,024) the difference of the two
// hit counts, with half of what the windows before gave, decides: above 1/64 of the window second
// sight is on, below -1/64 it is off, between them nothing changes. Off at first. Only blocks that
// are resident or remembered (SecondSightPolicy) count as known, so the state is bounded.
//
// The same calls always give the same decisions. Eighteen bytes an entry beside the inner policy's.
// Thread-compatible.
class AdaptivePolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kPrefix = "adaptive:";

  AdaptivePolicy(std::unique_ptr<EvictionPolicy> inner, const PolicyOptions& options);

  // Whether second sight stands in front of the policy now.
  bool is_on() const { return is_on_; }

  TouchOrder touch_order() const noexcept override { return admission_.touch_order(); }
  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override;
  void OnHit(std::span<const EntryIndex> run) override;
  bool Admit(EntryIndex entry) override;
  void OnInsert(EntryIndex entry, EntryIndex parent) override;
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override;
  void OnRemove(EntryIndex entry, RemoveReason reason) override;
  std::size_t Forget(std::span<EntryIndex> freed) override;
  std::size_t memory_bytes() const noexcept override {
    return admission_.memory_bytes() + BytesOf(readings_) + BytesOf(is_seen_twice_);
  }

 private:
  // Readings of the two clocks when the block was last referenced; they may wrap.
  struct Reading {
    std::uint32_t plain = 0;
    std::uint32_t second_sight = 0;
  };

  void Score(std::uint32_t entry, bool is_known);
  void EndWindow();

  SecondSightPolicy admission_;
  std::vector<Reading> readings_;
  std::vector<std::uint8_t> is_seen_twice_;  // Second sight would have stored it by now.
  Reading clock_;
  std::uint32_t residents_max_;
  std::uint64_t window_refs_;
  std::uint64_t refs_ = 0;  // Of this window.
  std::int64_t gain_ = 0;   // Hits of second sight less hits without it, in this window.
  std::int64_t decayed_gain_ = 0;
  bool is_on_ = false;
};

}  // namespace kvferry::policy
