// SecondSightPolicy: admission in front of any policy; a block is stored when it comes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kvferry/policy.h"

#include "policy/departed_entries.h"
#include "policy/entry_list.h"

namespace kvferry::policy {

// Most blocks are never asked for again, so the first sight of one earns it no place: it is
// refused and its number remembered; a block that is remembered is admitted (Johnson, Shasha, "2Q:
// a low overhead high performance buffer management replacement algorithm", VLDB 1994, names the
// idea; the cache-on-second-hit rule of content delivery networks is the same: Maggs, Sitaraman,
// "Algorithmic nuggets in content delivery", SIGCOMM CCR 45(3), 2015). The memory is a FIFO of
// PolicyOptions::remembered_max numbers, four times the residents by default. What is evicted
// enters it too, as seen; what is erased or failed does not.
//
// Everything else is the inner policy's: order, victims, its own admission, which is asked second.
//
// Leaf rule: in front of a policy that keeps it, and when paths are touched tail first, it holds. A
// child is remembered before its parent is, so a FIFO forgets it first, and one that is admitted
// finds its parent resident or remembered. Where a live request grows root first, a block may be
// stored behind one that was refused; it becomes a hit when that one is stored.
//
// Nine bytes an entry beside the inner policy's. Thread-compatible.
class SecondSightPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kPrefix = "second-sight:";

  SecondSightPolicy(std::unique_ptr<EvictionPolicy> inner, const PolicyOptions& options);

  // While open, everything is admitted; what is seen is remembered all the same. Closed at first.
  void set_is_open(bool is_open) { is_open_ = is_open; }
  // Whether the absent block is remembered.
  bool has_seen(EntryIndex entry) const { return seen_.is_linked(NumberOf(entry)); }

  TouchOrder touch_order() const noexcept override { return inner_->touch_order(); }
  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override;
  void OnHit(std::span<const EntryIndex> run) override;
  // A refused entry stays the policy's until Forget() reports it.
  bool Admit(EntryIndex entry) override;
  void OnInsert(EntryIndex entry, EntryIndex parent) override;
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override;
  void OnRemove(EntryIndex entry, RemoveReason reason) override;
  std::size_t Forget(std::span<EntryIndex> freed) override;
  std::size_t memory_bytes() const noexcept override {
    return inner_->memory_bytes() + seen_.memory_bytes() + BytesOf(state_) +
           departed_.memory_bytes();
  }

 private:
  // What a byte of state_ says of an entry.
  static constexpr std::uint8_t kResident = 1;
  static constexpr std::uint8_t kWithInner = 2;  // The inner policy has not forgotten it.

  void Remember(std::uint32_t entry);
  void DropIfUnknown(std::uint32_t entry);

  std::unique_ptr<EvictionPolicy> inner_;
  EntryLists seen_;  // One list, the oldest first.
  std::vector<std::uint8_t> state_;
  DepartedEntries departed_;
  std::uint32_t seen_count_ = 0;
  std::uint32_t seen_max_;
  bool is_open_ = false;
};

}  // namespace kvferry::policy
