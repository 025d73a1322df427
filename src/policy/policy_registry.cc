// Creation by name, and the errors of names and options.
#include "policy/policy_registry.h"

#include <string>
#include <utility>

#include "policy/adaptive_policy.h"
#include "policy/second_sight_policy.h"

namespace kvferry {

namespace {

// By a name of the table; null for any other.
std::unique_ptr<EvictionPolicy> CreateFromTable(std::string_view name,
                                                const PolicyOptions& options) {
  std::unique_ptr<EvictionPolicy> created;
  policy::ForEachPolicyType([&]<class Policy>(std::type_identity<Policy>) {
    if (name == Policy::kName) {
      created = std::make_unique<Policy>(options);
    }
  });
  return created;
}

// Admission::kPrefix and a name of the table; null for any other.
template <class Admission>
std::unique_ptr<EvictionPolicy> CreateBehind(std::string_view name, const PolicyOptions& options) {
  if (!name.starts_with(Admission::kPrefix)) {
    return nullptr;
  }
  std::unique_ptr<EvictionPolicy> inner =
      CreateFromTable(name.substr(Admission::kPrefix.size()), options);
  if (inner == nullptr) {
    return nullptr;
  }
  return std::make_unique<Admission>(std::move(inner), options);
}

}  // namespace

Result<std::unique_ptr<EvictionPolicy>> CreateEvictionPolicy(std::string_view name,
                                                             const PolicyOptions& options) {
  KVFERRY_RETURN_IF_ERROR(policy::ValidatePolicyOptions(options));
  std::unique_ptr<EvictionPolicy> created = CreateFromTable(name, options);
  if (created == nullptr) {
    created = CreateBehind<policy::SecondSightPolicy>(name, options);
  }
  if (created == nullptr) {
    created = CreateBehind<policy::AdaptivePolicy>(name, options);
  }
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
  std::string message;
  message.append("'").append(name);
  if (name.substr(name.rfind(':') + 1) == "min") {
    message.append(
        "' is no policy that can decide while blocks come: MIN (Belady) needs to know the future, "
        "so "
        "only a replay of a trace has it (kvferry replay), as a bound; use one of");
  } else {
    message.append("' is not a policy; known are");
  }
  std::string_view separator = " ";
  for (const std::string_view known : EvictionPolicyNames()) {
    message.append(separator).append(known);
    separator = ", ";
  }
  message.append(", each also behind ")
      .append(SecondSightPolicy::kPrefix)
      .append(" or ")
      .append(AdaptivePolicy::kPrefix);
  return Status::Error(StatusCode::kInvalidArgument, std::move(message));
}

}  // namespace kvferry::policy
