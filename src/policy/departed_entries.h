// DepartedEntries: numbers that a policy no longer remembers, waiting for Forget().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/policy.h"

#include "policy/entry_list.h"

namespace kvferry::policy {

// Each number waits once, in the order of leaving, and not while it is back in the policy. Keeps
// nothing, and takes no memory, unless the owner reuses numbers.
//
// Thread-compatible.
class DepartedEntries {
 public:
  explicit DepartedEntries(const PolicyOptions& options)
      : is_kept_(options.reports_forgotten), lists_(is_kept_ ? options.entries_max : 0, 1) {}

  // The policy has dropped the entry.
  void Add(std::uint32_t entry) {
    if (is_kept_ && !lists_.is_linked(entry)) {
      lists_.PushBack(0, entry);
    }
  }
  // The policy remembers the entry again, before the owner asked.
  void Withdraw(std::uint32_t entry) {
    if (is_kept_ && lists_.is_linked(entry)) {
      lists_.Unlink(entry);
    }
  }
  // EvictionPolicy::Forget.
  std::size_t Take(std::span<EntryIndex> freed) {
    std::size_t count = 0;
    while (count < freed.size() && is_kept_ && !lists_.is_empty(0)) {
      const std::uint32_t entry = lists_.front(0);
      lists_.Unlink(entry);
      freed[count++] = EntryIndex{entry};
    }
    return count;
  }

  std::size_t memory_bytes() const noexcept { return lists_.memory_bytes(); }

 private:
  bool is_kept_;
  EntryLists lists_;
};

}  // namespace kvferry::policy
