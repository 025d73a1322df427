// From a policy's name to an instance, as its own class for callers that want no dispatch.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "kvferry/policy.h"

#include "policy/arc_policy.h"
#include "policy/auto_policy.h"
#include "policy/clock_policy.h"
#include "policy/fifo_policy.h"
#include "policy/gdsf_policy.h"
#include "policy/leaf_lru_policy.h"
#include "policy/lfu_policy.h"
#include "policy/lirs_policy.h"
#include "policy/lru_head_first_policy.h"
#include "policy/s3_fifo_policy.h"
#include "policy/sieve_policy.h"
#include "policy/two_q_policy.h"
#include "policy/w_tinylfu_policy.h"

namespace kvferry::policy {

// The one table: every policy's class, in the order of docs/policies.md. A class says its name as
// `kName` and is made from PolicyOptions.
using PolicyTypes = std::tuple<LeafLruPolicy,
                               LruHeadFirstPolicy,
                               FifoPolicy,
                               ClockPolicy,
                               LfuPolicy,
                               SievePolicy,
                               TwoQPolicy,
                               S3FifoPolicy,
                               ArcPolicy,
                               LirsPolicy,
                               WTinyLfuPolicy,
                               GdsfPolicy,
                               AutoPolicy>;

// Ok, or kInvalidArgument saying which option is out of range.
Status ValidatePolicyOptions(const PolicyOptions& options);

// kInvalidArgument that lists the known names.
Status UnknownPolicy(std::string_view name);

// Calls `visit` with `std::type_identity<Policy>` for each class of the table.
template <class Visit>
void ForEachPolicyType(Visit&& visit) {
  [&]<class... Policies>(std::type_identity<std::tuple<Policies...>>) {
    (visit(std::type_identity<Policies>()), ...);
  }(std::type_identity<PolicyTypes>());
}

// Makes the named policy, calls `visitor` with a reference to it as its concrete class (as
// EvictionPolicy& behind an admission prefix), and destroys it. Fails as CreateEvictionPolicy does,
// without a call.
template <class Visitor>
Status VisitPolicy(std::string_view name, const PolicyOptions& options, Visitor&& visitor) {
  KVFERRY_RETURN_IF_ERROR(ValidatePolicyOptions(options));
  bool is_visited = false;
  ForEachPolicyType([&]<class Policy>(std::type_identity<Policy>) {
    if (name == Policy::kName) {
      Policy policy(options);
      visitor(policy);
      is_visited = true;
    }
  });
  if (is_visited) {
    return Status::Ok();
  }
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<EvictionPolicy> policy,
                           CreateEvictionPolicy(name, options));
  visitor(*policy);
  return Status::Ok();
}

}  // namespace kvferry::policy
