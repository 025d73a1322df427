// Creation by name, and the errors of names and options.
#include "policy/policy_registry.h"

#include <string>

namespace kvferry {

Result<std::unique_ptr<EvictionPolicy>> CreateEvictionPolicy(std::string_view name,
                                                             const PolicyOptions& options) {
  KVFERRY_RETURN_IF_ERROR(policy::ValidatePolicyOptions(options));
  std::unique_ptr<EvictionPolicy> created;
  policy::ForEachPolicyType([&]<class Policy>(std::type_identity<Policy>) {
    if (name == Policy::kName) {
      created = std::make_unique<Policy>(options);
    }
  });
  if (created == nullptr) {
    return policy::UnknownPolicy(name);
  }
  return created;
}

std::vector<std::string_view> EvictionPolicyNames() {
  std::vector<std::string_view> names;
  policy::ForEachPolicyType(
      [&]<class Policy>(std::type_identity<Policy>) { names.push_back(Policy::kName); });
  return names;
}

}  // namespace kvferry

namespace kvferry::policy {

Status ValidatePolicyOptions(const PolicyOptions& options) {
  if (options.residents_max == 0) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "residents_max is 0: a tier holds at least one block");
  }
  if (options.entries_max == 0 || options.entries_max >= 0xffff0000U) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "entries_max is " + std::to_string(options.entries_max) +
                             ": it must lie between 1 and 4,294,901,759");
  }
  return Status::Ok();
}

Status UnknownPolicy(std::string_view name) {
  std::string message = "'" + std::string(name) + "' is not a policy; known are";
  std::string_view separator = " ";
  for (const std::string_view known : EvictionPolicyNames()) {
    message.append(separator).append(known);
    separator = ", ";
  }
  return Status::Error(StatusCode::kInvalidArgument, std::move(message));
}

}  // namespace kvferry::policy
