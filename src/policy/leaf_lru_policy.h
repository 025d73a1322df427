// LeafLruPolicy: least recently used, with a request's blocks leaving leaf first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvferry/policy.h"

#include "policy/departed_entries.h"
#include "policy/entry_list.h"

namespace kvferry::policy {

// LRU over whole paths, as prefix caches of LLM servers do it (Zheng et al., "SGLang: Efficient
// Execution of Structured Language Model Programs", NeurIPS 2024, section 3). A request touches
// its blocks from the last to the first, so the root is the most recent; the victim is the least
// recent.
//
// Leaf rule: on chained blocks a parent is never older than its child, so children leave before
// their parents and what is resident stays a tree. A request whose number is not above all
// numbers so far is one that grew: its new blocks come root first, and each goes directly behind
// its parent, where it would lie had the request come whole. Where the parent is not resident, the
// block goes to the front.
//
// Held blocks are passed over. The rule survives that when holders hold whole prefixes.
//
// Eight bytes an entry. Thread-compatible.
class LeafLruPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "leaf-lru";

  explicit LeafLruPolicy(const PolicyOptions& options);

  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t /*leading_resident*/) override {
    grows_ = access.request != 0 && access.request <= newest_request_ && path.size() > 1;
    newest_request_ = access.request > newest_request_ ? access.request : newest_request_;
    path_ = path;
  }
  void OnHit(std::span<const EntryIndex> run) override {
    if (grows_) [[unlikely]] {
      TouchGrown(run);
      return;
    }
    lists_.MoveRunToFront(kResidents, run);
  }
  bool Admit(EntryIndex /*entry*/) override { return true; }
  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    departed_.Withdraw(NumberOf(entry));
    if (grows_ && parent != kNoEntry && lists_.is_linked(NumberOf(parent))) [[unlikely]] {
      lists_.InsertBefore(lists_.next(NumberOf(parent)), NumberOf(entry));
      return;
    }
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
  std::size_t PeekVictims(std::span<EntryIndex> next) const noexcept override {
    std::size_t count = 0;
    std::uint32_t entry = lists_.back(kResidents);
    while (count < next.size() && entry != lists_.sentinel(kResidents)) {
      next[count++] = EntryIndex{entry};
      entry = lists_.previous(entry);
    }
    return count;
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

  void TouchGrown(std::span<const EntryIndex> run);

  EntryLists lists_;
  DepartedEntries departed_;
  std::uint64_t newest_request_ = 0;
  std::span<const EntryIndex> path_;  // Of the request at hand; the owner's, until its step 2 ends.
  bool grows_ = false;
};

}  // namespace kvferry::policy
