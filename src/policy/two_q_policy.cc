// What 2Q takes at creation.
#include "policy/two_q_policy.h"

#include <algorithm>

namespace kvferry::policy {

TwoQPolicy::TwoQPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, kPlaces),
      place_(options.entries_max, kNowhere),
      newcomers_max_(std::max(1U, options.residents_max / kNewcomerDivisor)),
      remembered_max_(options.remembered_max != 0
                          ? options.remembered_max
                          : std::max(1U, options.residents_max / kRememberedDivisor)),
      departed_(options) {}

}  // namespace kvferry::policy
