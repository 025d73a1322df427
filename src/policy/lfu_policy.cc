// Construction of LFU; the loops are in the header.
#include "policy/lfu_policy.h"

#include <algorithm>

namespace kvferry::policy {

// A promotion may add its group before it empties the old one, so one more than residents can be in
// use, and one is the anchor.
LfuPolicy::LfuPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, 1),
      group_of_(std::size_t{options.entries_max} + 1, kAnchor),
      groups_(std::size_t{std::min(options.residents_max, options.entries_max)} + 2),
      departed_(options),
      free_group_(1) {
  for (std::uint32_t group = 1; group < groups_.size(); ++group) {
    groups_[group].next = group + 1;
  }
}

}  // namespace kvferry::policy
