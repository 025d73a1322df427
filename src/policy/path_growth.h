// PathGrowth: where the new blocks of a live request that grew belong in a list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kvferry/policy.h"

namespace kvferry::policy {

// Policies that touch tail first keep a path as a chain with the root in front, so that the tail
// goes first. A request that grew brings its new blocks later, and root first. They belong behind
// the part of the path that is there already: each new block follows its parent when that was the
// last one placed, otherwise the deepest leading hit. A request grew if its number is not above all
// numbers so far; one that comes in one piece goes to the front.
//
// Thread-compatible.
class PathGrowth {
 public:
  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) {
    // A path of one block is one reference under the block rule, not a longer path than before.
    is_growing_ = access.request != 0 && access.request <= newest_request_ && path.size() > 1;
    newest_request_ = std::max(newest_request_, access.request);
    anchor_ = is_growing_ && leading_resident > 0 ? path[leading_resident - 1] : kNoEntry;
    last_placed_ = kNoEntry;
  }

  // Behind whom the new block goes, if that one is in the same list; kNoEntry: to the front.
  EntryIndex Predecessor(EntryIndex entry, EntryIndex parent) {
    if (!is_growing_) [[likely]] {
      return kNoEntry;
    }
    const EntryIndex before = parent != kNoEntry && parent == last_placed_ ? parent : anchor_;
    last_placed_ = entry;
    return before;
  }

 private:
  std::uint64_t newest_request_ = 0;
  EntryIndex anchor_ = kNoEntry;
  EntryIndex last_placed_ = kNoEntry;
  bool is_growing_ = false;
};

}  // namespace kvferry::policy
