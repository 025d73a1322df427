// SievePolicy: FIFO with a hand that sifts in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvferry/policy.h"

#include "policy/departed_entries.h"
#include "policy/entry_list.h"

namespace kvferry::policy {

// Zhang et al., "SIEVE is simpler than LRU", NSDI 2024, algorithm 1. New blocks come to the head
// with a clear bit, a hit sets the bit. The hand goes from the tail towards the head, clears set
// bits and takes the first block whose bit is clear; it stays where it is, and begins at the tail
// again after the head. Blocks that survive keep their place, unlike CLOCK's.
//
// The hand passes held blocks and leaves their bits alone. Nine bytes an entry. Thread-compatible.
class SievePolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "sieve";

  explicit SievePolicy(const PolicyOptions& options);

  void OnRequest(const Access& /*access*/,
                 std::span<const EntryIndex> /*path*/,
                 std::uint32_t /*leading_resident*/) override {}
  void OnHit(std::span<const EntryIndex> run) override {
    for (const EntryIndex entry : run) {
      is_hit_[NumberOf(entry)] = 1;
    }
  }
  bool Admit(EntryIndex /*entry*/) override { return true; }
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override {
    departed_.Withdraw(NumberOf(entry));
    is_hit_[NumberOf(entry)] = 0;
    lists_.PushFront(kQueue, NumberOf(entry));
    ++resident_count_;
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    // Two rounds: the first may clear every bit. The ring has one more member, its sentinel.
    for (std::uint64_t step = 0; step < 2 * (resident_count_ + 1); ++step) {
      if (hand_ != lists_.sentinel(kQueue) && !is_held(EntryIndex{hand_})) {
        if (is_hit_[hand_] == 0) {
          return EntryIndex{hand_};
        }
        is_hit_[hand_] = 0;
      }
      hand_ = lists_.previous(hand_);
    }
    return kNoEntry;
  }
  void OnRemove(EntryIndex entry, RemoveReason /*reason*/) override {
    if (hand_ == NumberOf(entry)) {
      hand_ = lists_.previous(hand_);
    }
    lists_.Unlink(NumberOf(entry));
    --resident_count_;
    departed_.Add(NumberOf(entry));
  }
  std::size_t Forget(std::span<EntryIndex> freed) override { return departed_.Take(freed); }
  std::size_t memory_bytes() const noexcept override {
    return lists_.memory_bytes() + BytesOf(is_hit_) + departed_.memory_bytes();
  }

 private:
  static constexpr std::uint32_t kQueue = 0;  // Head (newest) first.

  EntryLists lists_;
  std::vector<std::uint8_t> is_hit_;
  DepartedEntries departed_;
  std::uint64_t resident_count_ = 0;
  std::uint32_t hand_;  // The next to be looked at; the sentinel: begin at the tail.
};

}  // namespace kvferry::policy
