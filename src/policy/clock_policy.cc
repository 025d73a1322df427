// Construction of CLOCK; the loops are in the header.
#include "policy/clock_policy.h"

namespace kvferry::policy {

ClockPolicy::ClockPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, 1),
      is_hit_(options.entries_max),
      departed_(options),
      hand_(lists_.sentinel(kRing)) {}

}  // namespace kvferry::policy
