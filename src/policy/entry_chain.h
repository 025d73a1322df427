// Chains: stretches of a path that are neighbours in a list, found and moved as one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/types.h"

#include "policy/entry_list.h"

namespace kvferry::policy {

inline constexpr std::uint32_t kNoLink = 0xffffffff;

// Where the longest chain that ends before run[end] begins: run[begin..end-1] follow each other in
// one list, front to back. All of `run` are in lists, and end is above zero.
//
// Moving the blocks of a chain to a list's front one by one, last first, is the same as moving the
// chain as it is (EntryLists::MoveChainToFront). What was stored and touched tail first is a chain
// from then on, so a hit costs a comparison a block and a handful of writes a chain.
inline std::size_t ChainBegin(const EntryLists& lists,
                              std::span<const EntryIndex> run,
                              std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && lists.next(NumberOf(run[begin - 1])) == NumberOf(run[begin])) {
    --begin;
  }
  return begin;
}

// Puts `entry` directly behind `predecessor`, which is in `list`, or at the front of `list` if that
// is kNoLink.
inline void PushBehind(EntryLists& lists,
                       std::uint32_t list,
                       std::uint32_t entry,
                       std::uint32_t predecessor) {
  lists.InsertBefore(predecessor != kNoLink ? lists.next(predecessor) : lists.front(list), entry);
}

// The entry nearest to the back of `list` that is not held; kNoLink if there is none.
template <class IsHeld>
std::uint32_t LastNotHeld(const EntryLists& lists, std::uint32_t list, IsHeld&& is_held) {
  std::uint32_t entry = lists.back(list);
  while (entry != lists.sentinel(list)) {
    if (!is_held(EntryIndex{entry})) {
      return entry;
    }
    entry = lists.previous(entry);
  }
  return kNoLink;
}

}  // namespace kvferry::policy
