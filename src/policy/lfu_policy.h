// LfuPolicy: least frequently used.
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

// Counts uses while a block is resident: 1 at insertion, one more a hit, forgotten when it leaves.
// The victim has the lowest count and, among equals, has had that count for the longest. Constant
// time a touch (Matani, Shah, Mitra, "An O(1) algorithm for implementing the LFU cache eviction
// scheme", 2010): one list in the order of leaving, in which each count is a group of neighbours.
//
// Twelve bytes an entry and 24 a resident. Thread-compatible.
class LfuPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "lfu";

  explicit LfuPolicy(const PolicyOptions& options);

  void OnRequest(const Access& /*access*/,
                 std::span<const EntryIndex> /*path*/,
                 std::uint32_t /*leading_resident*/) override {}
  // Blocks of a run were mostly counted together before, so what moves is whole chains.
  void OnHit(std::span<const EntryIndex> run) override {
    for (std::size_t end = run.size(); end > 0;) {
      std::size_t begin = end - 1;
      const std::uint32_t first = NumberOf(run[begin]);
      const std::uint32_t group = group_of_[first];
      std::uint32_t last = first;
      while (begin > 0 && lists_.next(last) == NumberOf(run[begin - 1]) &&
             group_of_[NumberOf(run[begin - 1])] == group) {
        --begin;
        last = NumberOf(run[begin]);
      }
      Promote(group, run.subspan(begin, end - begin));
      end = begin;
    }
  }
  bool Admit(EntryIndex /*entry*/) override { return true; }
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override {
    departed_.Withdraw(NumberOf(entry));
    std::uint32_t group = groups_[kAnchor].next;
    std::uint32_t position = lists_.front(kQueue);
    if (group != kAnchor && groups_[group].count == 1) {
      position = lists_.next(groups_[group].last);
    } else {
      group = AddGroup(kAnchor, 1);
    }
    lists_.InsertBefore(position, NumberOf(entry));
    groups_[group].last = NumberOf(entry);
    group_of_[NumberOf(entry)] = group;
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    std::uint32_t entry = lists_.front(kQueue);
    while (entry != lists_.sentinel(kQueue)) {
      if (!is_held(EntryIndex{entry})) [[likely]] {
        return EntryIndex{entry};
      }
      entry = lists_.next(entry);
    }
    return kNoEntry;
  }
  void OnRemove(EntryIndex entry, RemoveReason /*reason*/) override {
    CutFromGroup(group_of_[NumberOf(entry)], NumberOf(entry), NumberOf(entry));
    lists_.Unlink(NumberOf(entry));
    departed_.Add(NumberOf(entry));
  }
  std::size_t Forget(std::span<EntryIndex> freed) override { return departed_.Take(freed); }
  std::size_t memory_bytes() const noexcept override {
    return lists_.memory_bytes() + BytesOf(group_of_) + BytesOf(groups_) + departed_.memory_bytes();
  }

 private:
  struct Group {
    std::uint64_t count = 0;
    std::uint32_t last = 0;  // The entry that leaves last.
    std::uint32_t next = 0;  // By rising count, in a ring through kAnchor; free ones in a chain.
    std::uint32_t previous = 0;
  };

  static constexpr std::uint32_t kQueue = 0;   // Next to leave first.
  static constexpr std::uint32_t kAnchor = 0;  // Of the ring of groups; the sentinel's group too.

  // `chain`: from the last to the first it is a chain of neighbours in the group.
  void Promote(std::uint32_t group, std::span<const EntryIndex> chain) {
    const std::uint32_t first = NumberOf(chain.back());
    const std::uint32_t last = NumberOf(chain.front());
    std::uint32_t target = groups_[group].next;
    std::uint32_t position = 0;
    if (target != kAnchor && groups_[target].count == groups_[group].count + 1) {
      position = lists_.next(groups_[target].last);
    } else if (groups_[group].last == last && group_of_[lists_.previous(first)] != group) {
      ++groups_[group].count;  // The chain is the whole group, and no other has its new count.
      return;
    } else {
      position = lists_.next(groups_[group].last);
      target = AddGroup(group, groups_[group].count + 1);
    }
    CutFromGroup(group, first, last);
    if (lists_.next(last) != position) {
      lists_.UnlinkChain(first, last);
      lists_.InsertChainBefore(position, first, last);
    }
    groups_[target].last = last;
    for (const EntryIndex entry : chain) {
      group_of_[NumberOf(entry)] = target;
    }
  }
  // Before the chain's links change: takes it out of the group's bounds; an empty group goes.
  void CutFromGroup(std::uint32_t group, std::uint32_t first, std::uint32_t last) {
    if (groups_[group].last != last) {
      return;
    }
    if (group_of_[lists_.previous(first)] == group) {
      groups_[group].last = lists_.previous(first);
      return;
    }
    groups_[groups_[group].previous].next = groups_[group].next;
    groups_[groups_[group].next].previous = groups_[group].previous;
    groups_[group].next = free_group_;
    free_group_ = group;
  }
  std::uint32_t AddGroup(std::uint32_t before, std::uint64_t count) {
    const std::uint32_t group = free_group_;
    free_group_ = groups_[group].next;
    const std::uint32_t after = groups_[before].next;
    groups_[group] = {.count = count, .last = 0, .next = after, .previous = before};
    groups_[before].next = group;
    groups_[after].previous = group;
    return group;
  }

  EntryLists lists_;
  std::vector<std::uint32_t> group_of_;  // By entry, of residents; one more for the sentinel.
  std::vector<Group> groups_;
  DepartedEntries departed_;
  std::uint32_t free_group_;
};

}  // namespace kvferry::policy
