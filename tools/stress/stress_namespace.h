// The namespaces that blocks of stress runs are put under.
#pragma once

#include <cstdint>
#include <string>

#include "kvferry/namespace.h"

namespace kvferry::stress {

// Each number another namespace, of one tenant and the smallest layout.
inline Namespace DescriptionOf(std::uint32_t space) {
  Namespace description;
  description.tenant = Tenant::Shared();
  description.model_id = "model " + std::to_string(space);
  description.model_revision = "1";
  description.layer_group.layer_count = 1;
  description.layer_group.kv_head_count = 1;
  description.layer_group.key_width = 1;
  description.layer_group.value_width = 1;
  description.layout = "LBHNC";
  description.block_tokens = 16;
  description.rectangle.layer_end = 1;
  description.rectangle.kv_head_end = 1;
  return description;
}

}  // namespace kvferry::stress
