// EntryLists: doubly linked lists over entry numbers, the backbone of the queue-shaped policies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/types.h"

#include "base/huge_array.h"

namespace kvferry::policy {

inline constexpr std::uint32_t NumberOf(EntryIndex entry) {
  return static_cast<std::uint32_t>(entry);
}

// For EvictionPolicy::memory_bytes.
template <class T>
std::size_t BytesOf(const std::vector<T>& table) {
  return table.size() * sizeof(T);
}

// Links for entries 0..entries_max-1, shared by any number of lists of one policy: an entry is in
// at most one list at a time. Lists are rings through sentinels numbered entries_max + list, so no
// operation has a special case. Eight bytes an entry.
//
// Thread-compatible.
class EntryLists {
 public:
  EntryLists(std::uint32_t entries_max, std::uint32_t lists)
      : sentinel_base_(entries_max), links_(std::size_t{entries_max} + lists) {
    for (std::uint32_t entry = 0; entry < entries_max + lists; ++entry) {
      links_[entry] = {entry, entry};
    }
  }

  std::size_t memory_bytes() const noexcept { return links_.size_bytes(); }
  std::uint32_t sentinel(std::uint32_t list) const { return sentinel_base_ + list; }
  bool is_empty(std::uint32_t list) const { return links_[sentinel(list)].next == sentinel(list); }
  std::uint32_t front(std::uint32_t list) const { return links_[sentinel(list)].next; }
  std::uint32_t back(std::uint32_t list) const { return links_[sentinel(list)].previous; }
  std::uint32_t next(std::uint32_t entry) const { return links_[entry].next; }
  std::uint32_t previous(std::uint32_t entry) const { return links_[entry].previous; }
  // Whether the entry is in a list: one that is in none is linked to itself.
  bool is_linked(std::uint32_t entry) const { return links_[entry].next != entry; }

  void PushBack(std::uint32_t list, std::uint32_t entry) { InsertBefore(sentinel(list), entry); }
  void PushFront(std::uint32_t list, std::uint32_t entry) {
    InsertBefore(links_[sentinel(list)].next, entry);
  }
  void InsertBefore(std::uint32_t position, std::uint32_t entry) {
    const std::uint32_t before = links_[position].previous;
    links_[entry] = {position, before};
    links_[before].next = entry;
    links_[position].previous = entry;
  }
  void Unlink(std::uint32_t entry) {
    UnlinkChain(entry, entry);
    links_[entry] = {entry, entry};
  }

  // `first`..`last` are neighbours in one list, in this order. They keep their links among each
  // other and must go into a list next.
  void UnlinkChain(std::uint32_t first, std::uint32_t last) {
    const std::uint32_t before = links_[first].previous;
    const std::uint32_t after = links_[last].next;
    links_[before].next = after;
    links_[after].previous = before;
  }
  void InsertChainBefore(std::uint32_t position, std::uint32_t first, std::uint32_t last) {
    const std::uint32_t before = links_[position].previous;
    links_[before].next = first;
    links_[first].previous = before;
    links_[last].next = position;
    links_[position].previous = last;
  }
  void MoveChainToFront(std::uint32_t list, std::uint32_t first, std::uint32_t last) {
    if (links_[first].previous != sentinel(list)) {
      UnlinkChain(first, last);
      InsertChainBefore(front(list), first, last);
    }
  }

  // Moves entries of the list to its front, one by one from the last to the first, so that run[0]
  // ends in front. Neighbours in the run are mostly neighbours in the list already, so what moves
  // is whole chains.
  void MoveRunToFront(std::uint32_t list, std::span<const EntryIndex> run) {
    for (std::size_t end = run.size(); end > 0;) {
      const std::uint32_t last = NumberOf(run[end - 1]);
      std::uint32_t first = last;
      for (--end; end > 0 && links_[NumberOf(run[end - 1])].next == first; --end) {
        first = NumberOf(run[end - 1]);
      }
      MoveChainToFront(list, first, last);
    }
  }
  // The same from the first to the last: the last one ends in front.
  void MoveRunToFrontReversed(std::uint32_t list, std::span<const EntryIndex> run) {
    for (std::size_t begin = 0; begin < run.size();) {
      const std::uint32_t last = NumberOf(run[begin]);
      std::uint32_t first = last;
      for (++begin; begin < run.size() && links_[NumberOf(run[begin])].next == first; ++begin) {
        first = NumberOf(run[begin]);
      }
      MoveChainToFront(list, first, last);
    }
  }

 private:
  struct Link {
    std::uint32_t next = 0;
    std::uint32_t previous = 0;
  };

  std::uint32_t sentinel_base_;
  HugeArray<Link> links_;
};

}  // namespace kvferry::policy
