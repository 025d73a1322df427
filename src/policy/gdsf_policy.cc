// How GDSF's window of priorities moves on, and how held blocks are passed over.
#include "policy/gdsf_policy.h"

#include <limits>

namespace kvferry::policy {

GdsfPolicy::GdsfPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, kBuckets + 1), blocks_(options.entries_max), departed_(options) {}

std::uint32_t GdsfPolicy::LowestNotHeld(std::uint64_t lowest,
                                        FunctionRef<bool(EntryIndex)> is_held) const {
  for (std::uint64_t priority = lowest; priority < window_end_; ++priority) {
    const std::uint32_t found = LastNotHeld(lists_, ListOf(priority), is_held);
    if (found != kNoLink) {
      return found;
    }
  }
  std::uint32_t found = kNoLink;
  for (std::uint32_t entry = lists_.back(kWaiting); entry != lists_.sentinel(kWaiting);
       entry = lists_.previous(entry)) {
    if ((found == kNoLink || blocks_[entry].priority < blocks_[found].priority) &&
        !is_held(EntryIndex{entry})) {
      found = entry;
    }
  }
  return found;
}

void GdsfPolicy::MoveWindow() {
  std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t entry = lists_.front(kWaiting); entry != lists_.sentinel(kWaiting);
       entry = lists_.next(entry)) {
    lowest = std::min(lowest, blocks_[entry].priority);
  }
  lowest_ = lowest;
  window_end_ = lowest + kBuckets;
  // From the back: who was touched longest ago comes first into its list, as if there had been one.
  for (std::uint32_t entry = lists_.back(kWaiting); entry != lists_.sentinel(kWaiting);) {
    const std::uint32_t before = lists_.previous(entry);
    const std::uint32_t list = ListOf(blocks_[entry].priority);
    if (list != kWaiting) {
      lists_.Unlink(entry);
      lists_.PushFront(list, entry);
    }
    entry = before;
  }
}

}  // namespace kvferry::policy
