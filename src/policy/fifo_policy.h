// FifoPolicy: first in, first out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvferry/policy.h"

#include "policy/departed_entries.h"
#include "policy/entry_list.h"

namespace kvferry::policy {

// Blocks leave in the order of their insertion, hits change nothing (Belady, "A study of
// replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966). A
// request's blocks are inserted from the first to the last.
//
// Eight bytes an entry. Thread-compatible.
class FifoPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "fifo";

  explicit FifoPolicy(const PolicyOptions& options);

  TouchOrder touch_order() const noexcept override { return TouchOrder::kHeadFirst; }
  void OnRequest(const Access& /*access*/,
                 std::span<const EntryIndex> /*path*/,
                 std::uint32_t /*leading_resident*/) override {}
  void OnHit(std::span<const EntryIndex> /*run*/) override {}
  bool Admit(EntryIndex /*entry*/) override { return true; }
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override {
    departed_.Withdraw(NumberOf(entry));
    lists_.PushBack(kResidents, NumberOf(entry));
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    std::uint32_t entry = lists_.front(kResidents);
    while (entry != lists_.sentinel(kResidents)) {
      if (!is_held(EntryIndex{entry})) [[likely]] {
        return EntryIndex{entry};
      }
      entry = lists_.next(entry);
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
  static constexpr std::uint32_t kResidents = 0;  // Oldest first.

  EntryLists lists_;
  DepartedEntries departed_;
};

}  // namespace kvferry::policy
