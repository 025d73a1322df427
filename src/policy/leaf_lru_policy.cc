// What leaf-LRU does only for requests that grew.
#include "policy/leaf_lru_policy.h"

#include "base/assert.h"

namespace kvferry::policy {

LeafLruPolicy::LeafLruPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, 1), departed_(options) {}

void LeafLruPolicy::TouchGrown(std::span<const EntryIndex> run) {
  if (run.empty()) {
    return;
  }
  // What a request gains lies at the end of its path.
  std::size_t position = path_.size();
  do {
    KVFERRY_CHECK(position > 0);
    --position;
  } while (path_[position] != run.front());
  if (position == 0 || !lists_.is_linked(NumberOf(path_[position - 1]))) {
    lists_.MoveRunToFront(kResidents, run);
    return;
  }
  // Each moves towards the front or stays, so its other children stay behind it.
  std::uint32_t before = NumberOf(path_[position - 1]);
  for (const EntryIndex entry : run) {
    if (lists_.next(before) != NumberOf(entry)) {
      lists_.Unlink(NumberOf(entry));
      lists_.InsertBefore(lists_.next(before), NumberOf(entry));
    }
    before = NumberOf(entry);
  }
}

}  // namespace kvferry::policy
