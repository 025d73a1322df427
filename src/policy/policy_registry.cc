// The one table of policy names.
#include "policy/policy_registry.h"

#include <string>

namespace kvferry {

Result<std::unique_ptr<EvictionPolicy>> CreateEvictionPolicy(std::string_view name,
                                                             const PolicyOptions& options) {
  KVFERRY_RETURN_IF_ERROR(policy::ValidatePolicyOptions(options));
  return Status::Error(StatusCode::kInvalidArgument,
                       "'" + std::string(name) + "' is not a policy");
}

std::vector<std::string_view> EvictionPolicyNames() { return {}; }

}  // namespace kvferry

namespace kvferry::policy {

Status ValidatePolicyOptions(const PolicyOptions& options) {
  if (options.residents_max == 0) {
    return Status::Error(StatusCode::kInvalidArgument, "residents_max is 0: a tier holds at least one block");
  }
  if (options.entries_max == 0 || options.entries_max >= 0xffff0000U) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "entries_max is " + std::to_string(options.entries_max) +
                             ": it must lie between 1 and 4,294,901,759");
  }
  return Status::Ok();
}

}  // namespace kvferry::policy
