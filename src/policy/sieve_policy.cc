// Construction of SIEVE; the loops are in the header.
#include "policy/sieve_policy.h"

namespace kvferry::policy {

SievePolicy::SievePolicy(const PolicyOptions& options)
    : lists_(options.entries_max, 1),
      is_hit_(options.entries_max),
      departed_(options),
      hand_(lists_.sentinel(kQueue)) {}

}  // namespace kvferry::policy
