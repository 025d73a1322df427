// LayerPlan: for each layer of a model, whether it keeps all tokens, a window, a state or nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "model/config_json.h"

namespace kvferry::model {

enum class LayerRole : std::uint8_t { kFull, kWindow, kState, kNothing };

struct LayerSpec {
  LayerRole role = LayerRole::kFull;
  std::uint32_t window_tokens = 0;   // 0 unless the role is kWindow.
  std::uint32_t heads_in_group = 0;  // Query heads to a KV head, where layers differ; else 0.
};

struct LayerPlan {
  std::vector<LayerSpec> layers;
  std::vector<std::string> notes;
};

// The first of these that a config has decides: block_configs, hybrid_override_pattern,
// hybrid_layer_pattern, layer_types, attn_layer_period, attn_layer_indices,
// full_attention_interval, sliding_window_pattern, what the model type implies (Gemma 2 and 3,
// Cohere 2, Llama 4, Qwen 2), sliding_window; else every layer keeps every token. Errors as
// ReadKvShape.
Result<LayerPlan> PlanLayers(const ConfigJson& config, std::uint32_t layer_count);

}  // namespace kvferry::model
