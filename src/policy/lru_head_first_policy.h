// LruHeadFirstPolicy: plain LRU, a request's blocks touched from the first to the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvferry/policy.h"

#include "policy/departed_entries.h"
#include "policy/entry_list.h"

namespace kvferry::policy {

// Least recently used over single blocks (Mattson et al., "Evaluation techniques for storage
// hierarchies", IBM Systems Journal 9(2), 1970). Each touch moves a block to the front; the victim
// is the last. A request's last block ends in front, so its root is the next of its own to go and
// takes the use of everything behind it along: here for comparison with leaf-LRU.
//
// Eight bytes an entry. Thread-compatible.
class LruHeadFirstPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "lru-head-first";

  explicit LruHeadFirstPolicy(const PolicyOptions& options);

  TouchOrder touch_order() const noexcept override { return TouchOrder::kHeadFirst; }
  void OnRequest(const Access& /*access*/,
                 std::span<const EntryIndex> /*path*/,
                 std::uint32_t /*leading_resident*/) override {}
  void OnHit(std::span<const EntryIndex> run) override {
    lists_.MoveRunToFrontReversed(kResidents, run);
  }
  bool Admit(EntryIndex /*entry*/) override { return true; }
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override {
    departed_.Withdraw(NumberOf(entry));
    lists_.PushFront(kResidents, NumberOf(entry));
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    std::uint32_t entry = lists_.back(kResidents);
    while (entry != lists_.sentinel(kResidents)) {
      if (!is_held(EntryIndex{entry})) [[likely]] {
        return EntryIndex{entry};
      }
      entry = lists_.previous(entry);
    }
    return kNoEntry;
  }
  void OnRemove(EntryIndex entry, RemoveReason /*reason*/) override {
    lists_.Unlink(NumberOf(entry));
    departed_.Add(NumberOf(entry));
  }
  std::size_t Forget(std::span<EntryIndex> freed) override { return departed_.Take(freed); }
  std::size_t memory_bytes() const noexcept override {
    return lists_.memory_bytes() + departed_.memory_bytes();
  }

 private:
  static constexpr std::uint32_t kResidents = 0;  // Most recent first.

  EntryLists lists_;
  DepartedEntries departed_;
};

}  // namespace kvferry::policy
