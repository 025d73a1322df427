// EntryList: doubly linked lists over entry numbers, the backbone of the queue-shaped policies.
#pragma once

#include <cstdint>
#include <vector>

#include "kvferry/types.h"

namespace kvferry::policy {

// Links for entries 0..entries_max-1, shared by any number of lists of one policy: an entry is in
// at most one list at a time. Lists are rings through sentinels numbered entries_max + list, so no
// operation has a special case. Eight bytes an entry.
//
// Thread-compatible.
class EntryLists {
 public:
  EntryLists(std::uint32_t entries_max, std::uint32_t lists)
      : sentinel_base_(entries_max), links_(std::size_t{entries_max} + lists) {
    for (std::uint32_t list = 0; list < lists; ++list) {
      links_[sentinel_base_ + list] = {sentinel_base_ + list, sentinel_base_ + list};
    }
  }

  std::uint32_t sentinel(std::uint32_t list) const { return sentinel_base_ + list; }
  bool is_empty(std::uint32_t list) const { return links_[sentinel(list)].next == sentinel(list); }
  std::uint32_t front(std::uint32_t list) const { return links_[sentinel(list)].next; }
  std::uint32_t back(std::uint32_t list) const { return links_[sentinel(list)].previous; }
  std::uint32_t next(std::uint32_t entry) const { return links_[entry].next; }
  std::uint32_t previous(std::uint32_t entry) const { return links_[entry].previous; }

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
  void Unlink(std::uint32_t entry) { UnlinkChain(entry, entry); }

  // `first`..`last` are neighbours in one list, in this order.
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

 private:
  struct Link {
    std::uint32_t next = 0;
    std::uint32_t previous = 0;
  };

  std::uint32_t sentinel_base_;
  std::vector<Link> links_;
};

}  // namespace kvferry::policy
