// From a policy's name to an instance, also with its concrete type for callers that want no dispatch.
#pragma once

#include <string_view>

#include "kvferry/policy.h"

namespace kvferry::policy {

// Ok, or kInvalidArgument saying which option is out of range.
Status ValidatePolicyOptions(const PolicyOptions& options);

}  // namespace kvferry::policy
