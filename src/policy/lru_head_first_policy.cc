// Construction of plain LRU; the loops are in the header.
#include "policy/lru_head_first_policy.h"

namespace kvferry::policy {

LruHeadFirstPolicy::LruHeadFirstPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, 1), departed_(options) {}

}  // namespace kvferry::policy
