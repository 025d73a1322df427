// From a config's fields to groups of layers, and from groups to bytes.
#include "model/kv_shape.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "model/config_json.h"
#include "model/layer_plan.h"

namespace kvferry::model {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint32_t kLayersMax = 4096;
constexpr std::uint32_t kHeadsMax = 65'536;
constexpr std::uint32_t kWidthMax = 1U << 20;
constexpr std::uint32_t kElementsMax = 1U
                                       << 24;  // A token and layer; the largest in use has 12,288.

// Types whose plain fields are known to say all.
constexpr std::string_view kKnownTypes[] = {"baichuan",
                                            "bamba",
                                            "bloom",
                                            "chatglm",
                                            "codegen",
                                            "cohere",
                                            "cohere2",
                                            "dbrx",
                                            "deepseek",
                                            "deepseek_v2",
                                            "deepseek_v3",
                                            "deepseek_v32",
                                            "ernie4_5",
                                            "ernie4_5_moe",
                                            "exaone",
                                            "exaone4",
                                            "falcon",
                                            "gemma",
                                            "gemma2",
                                            "gemma3",
                                            "gemma3_text",
                                            "gemma3n_text",
                                            "glm",
                                            "glm4",
                                            "glm4_moe",
                                            "glm_moe_dsa",
                                            "gpt2",
                                            "gpt_bigcode",
                                            "gpt_neox",
                                            "gpt_oss",
                                            "gptj",
                                            "granite",
                                            "granitemoe",
                                            "granitemoehybrid",
                                            "internlm2",
                                            "jamba",
                                            "kimi_k2",
                                            "llama",
                                            "llama4_text",
                                            "mimo_v2_flash",
                                            "minicpm3",
                                            "minimax_m2",
                                            "mistral",
                                            "mixtral",
                                            "mpt",
                                            "nemotron",
                                            "nemotron-nas",
                                            "nemotron_h",
                                            "olmo",
                                            "olmo2",
                                            "opt",
                                            "phi",
                                            "phi3",
                                            "phimoe",
                                            "qwen2",
                                            "qwen2_moe",
                                            "qwen3",
                                            "qwen3_moe",
                                            "qwen3_next",
                                            "qwen3_5_text",
                                            "qwen3_5_moe_text",
                                            "seed_oss",
                                            "smollm3",
                                            "stablelm",
                                            "starcoder2"};

// Heads and widths as plain configs name them.
struct HeadFields {
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t key_width = 0;
  std::uint32_t value_width = 0;
};

std::uint64_t Saturated(Wide value) {
  return value > UINT64_MAX ? UINT64_MAX : static_cast<std::uint64_t>(value);
}

Result<std::uint32_t> ReadHeadWidth(const ConfigJson& config, std::uint32_t heads) {
  KVFERRY_ASSIGN_OR_RETURN(
      const std::optional<std::uint32_t> width,
      config.Number({"head_dim", "attention_head_dim", "kv_channels", "head_size"}, kWidthMax));
  if (width && *width > 0) {
    return *width;
  }
  KVFERRY_ASSIGN_OR_RETURN(
      const std::uint32_t hidden,
      config.RequiredNumber({"hidden_size", "n_embd", "n_embed", "d_model"}, kWidthMax));
  if (hidden % heads != 0) {
    return config.Error("hidden_size", "is " + std::to_string(hidden) + ", not a multiple of " +
                                           std::to_string(heads) +
                                           " heads, and there is no head_dim");
  }
  return hidden / heads;
}

// Falcon: num_kv_heads counts in the newer architecture only; the older one has a flag for one
// head.
Result<std::uint32_t> ReadFalconKvHeads(const ConfigJson& config, std::uint32_t heads) {
  if (config.IsTrue("new_decoder_architecture")) {
    return config.RequiredNumber({"num_kv_heads", "n_head_kv"}, kHeadsMax);
  }
  return config.IsFalse("multi_query") ? heads : 1U;
}

Result<std::uint32_t> ReadKvHeads(const ConfigJson& config, std::uint32_t heads) {
  if (config.Text("model_type").starts_with("falcon") ||
      config.Text("model_type") == "RefinedWebModel") {
    return ReadFalconKvHeads(config, heads);
  }
  if (config.Text("model_type") == "gpt_bigcode") {
    return config.IsFalse("multi_query") ? heads : 1U;
  }
  if (config.Has("multi_query_group_num")) {  // ChatGLM.
    return config.IsTrue("multi_query_attention")
               ? config.RequiredNumber({"multi_query_group_num"}, kHeadsMax)
               : Result<std::uint32_t>(heads);
  }
  if (config.Has("attn_config") && config.At("attn_config").is_object()) {  // MPT, DBRX.
    const nlohmann::json given = config.At("attn_config").value("kv_n_heads", nlohmann::json());
    if (given.is_number_unsigned() && given.get<std::uint64_t>() <= kHeadsMax && given != 0) {
      return given.get<std::uint32_t>();
    }
  }
  KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> given,
                           config.Number({"num_key_value_heads", "num_kv_heads", "n_kv_heads",
                                          "num_query_groups", "n_head_kv"},
                                         kHeadsMax));
  if (given && *given == 0) {
    return config.Error("num_key_value_heads", "is 0");
  }
  return given.value_or(heads);  // Without the field every head has K and V of its own.
}

Result<HeadFields> ReadHeads(const ConfigJson& config) {
  HeadFields fields;
  KVFERRY_ASSIGN_OR_RETURN(
      fields.heads, config.RequiredNumber({"num_attention_heads", "n_head", "n_heads"}, kHeadsMax));
  KVFERRY_ASSIGN_OR_RETURN(fields.kv_heads, ReadKvHeads(config, fields.heads));
  KVFERRY_ASSIGN_OR_RETURN(fields.key_width, ReadHeadWidth(config, fields.heads));
  KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> value_width,
                           config.Number({"v_head_dim"}, kWidthMax));
  fields.value_width = value_width.value_or(fields.key_width);
  return fields;
}

// MiMo: windowed layers have heads and widths of their own.
Result<HeadFields> ReadWindowHeads(const ConfigJson& config, const HeadFields& full) {
  HeadFields fields = full;
  KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> kv_heads,
                           config.Number({"swa_num_key_value_heads"}, kHeadsMax));
  KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> key_width,
                           config.Number({"swa_head_dim"}, kWidthMax));
  KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> value_width,
                           config.Number({"swa_v_head_dim"}, kWidthMax));
  fields.kv_heads = kv_heads.value_or(full.kv_heads);
  fields.key_width = key_width.value_or(full.key_width);
  fields.value_width = value_width.value_or(key_width.value_or(full.value_width));
  return fields;
}

Result<std::uint32_t> ElementsOf(const ConfigJson& config, const HeadFields& fields) {
  const std::uint64_t elements =
      std::uint64_t{fields.kv_heads} * (std::uint64_t{fields.key_width} + fields.value_width);
  if (elements == 0 || elements > kElementsMax) {
    return config.Error(
        "num_key_value_heads",
        "makes " + std::to_string(elements) + " elements a token and layer, which no model has");
  }
  return static_cast<std::uint32_t>(elements);
}

void AddLayer(KvShape& shape, const KvGroup& one) {
  for (KvGroup& group : shape.groups) {
    if (group.elements_per_token == one.elements_per_token &&
        group.window_tokens == one.window_tokens) {
      ++group.layer_count;
      return;
    }
  }
  shape.groups.push_back(one);
  shape.groups.back().layer_count = 1;
}

Status AddAttention(const ConfigJson& config, const LayerPlan& plan, KvShape& shape) {
  KVFERRY_ASSIGN_OR_RETURN(const HeadFields full, ReadHeads(config));
  KVFERRY_ASSIGN_OR_RETURN(const HeadFields window, ReadWindowHeads(config, full));
  for (const LayerSpec& layer : plan.layers) {
    if (layer.role != LayerRole::kFull && layer.role != LayerRole::kWindow) {
      continue;
    }
    HeadFields fields = layer.role == LayerRole::kFull ? full : window;
    if (layer.heads_in_group > 0) {
      if (fields.heads % layer.heads_in_group != 0) {
        return config.Error("block_configs",
                            "has an n_heads_in_group that does not divide the heads");
      }
      fields.kv_heads = fields.heads / layer.heads_in_group;
    }
    KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t elements, ElementsOf(config, fields));
    AddLayer(shape, {.elements_per_token = elements, .window_tokens = layer.window_tokens});
  }
  return Status::Ok();
}

// MLA: one latent vector and the rotated part of the key, once for K and V and all heads.
Status AddLatent(const ConfigJson& config, const LayerPlan& plan, KvShape& shape) {
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t rank,
                           config.RequiredNumber({"kv_lora_rank"}, kWidthMax));
  KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> rotated,
                           config.Number({"qk_rope_head_dim"}, kWidthMax));
  if (!rotated) {
    return config.Error("qk_rope_head_dim", "is missing, though kv_lora_rank is there");
  }
  KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> indexer,
                           config.Number({"index_head_dim"}, kWidthMax));
  for (const LayerSpec& layer : plan.layers) {
    if (layer.role != LayerRole::kFull && layer.role != LayerRole::kWindow) {
      continue;
    }
    AddLayer(shape, {.elements_per_token = rank + *rotated,
                     .window_tokens = layer.window_tokens,
                     .is_latent = true});
    shape.indexer_elements_per_token += indexer.value_or(0);
  }
  return Status::Ok();
}

Result<std::uint64_t> Product(const ConfigJson& config,
                              std::initializer_list<std::string_view> first,
                              std::initializer_list<std::string_view> second) {
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t a, config.RequiredNumber(first, kWidthMax));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t b, config.RequiredNumber(second, kWidthMax));
  return std::uint64_t{a} * b;
}

// Mamba-1: d_conv - 1 columns and d_state recurrent elements for each inner channel.
Result<StateGroup> ReadMamba1(const ConfigJson& config) {
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t inner,
                           Product(config, {"mamba_expand"}, {"hidden_size"}));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t kernel,
                           config.RequiredNumber({"mamba_d_conv"}, kWidthMax));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t state,
                           config.RequiredNumber({"mamba_d_state"}, kWidthMax));
  return StateGroup{.convolution_elements = (kernel - 1) * inner,
                    .recurrent_elements = inner * state};
}

// Mamba-2: B and C of each group go through the convolution too.
Result<StateGroup> ReadMamba2(const ConfigJson& config) {
  KVFERRY_ASSIGN_OR_RETURN(
      const std::uint64_t inner,
      Product(config, {"mamba_num_heads", "mamba_n_heads"}, {"mamba_head_dim", "mamba_d_head"}));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t state,
                           config.RequiredNumber({"ssm_state_size", "mamba_d_state"}, kWidthMax));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t groups,
                           config.RequiredNumber({"n_groups", "mamba_n_groups"}, kWidthMax));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t kernel,
                           config.RequiredNumber({"conv_kernel", "mamba_d_conv"}, kWidthMax));
  return StateGroup{
      .convolution_elements = (kernel - 1) * (inner + 2 * std::uint64_t{groups} * state),
      .recurrent_elements = inner * state};
}

// Gated delta net: Q, K and V go through the convolution; a matrix for each value head is kept.
Result<StateGroup> ReadDeltaNet(const ConfigJson& config) {
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t keys,
                           Product(config, {"linear_num_key_heads"}, {"linear_key_head_dim"}));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t values,
                           Product(config, {"linear_num_value_heads"}, {"linear_value_head_dim"}));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t key_width,
                           config.RequiredNumber({"linear_key_head_dim"}, kWidthMax));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t kernel,
                           config.RequiredNumber({"linear_conv_kernel_dim"}, kWidthMax));
  return StateGroup{.convolution_elements = (kernel - 1) * (2 * keys + values),
                    .recurrent_elements = values * key_width};
}

Status AddStates(const ConfigJson& config, const LayerPlan& plan, KvShape& shape) {
  const auto count =
      std::count_if(plan.layers.begin(), plan.layers.end(),
                    [](const LayerSpec& layer) { return layer.role == LayerRole::kState; });
  if (count == 0) {
    return Status::Ok();
  }
  if (!config.Has("mamba_expand") && !config.Has("linear_num_key_heads") &&
      !config.Has("mamba_num_heads")) {
    shape.notes.push_back(std::to_string(count) +
                          " layers hold a state of unknown size, which is not counted");
    return Status::Ok();
  }
  KVFERRY_ASSIGN_OR_RETURN(StateGroup group,
                           config.Has("linear_num_key_heads") ? ReadDeltaNet(config)
                           : config.Has("mamba_num_heads") || config.Has("mamba_n_heads")
                               ? ReadMamba2(config)
                               : ReadMamba1(config));
  group.layer_count = static_cast<std::uint32_t>(count);
  shape.states.push_back(group);
  return Status::Ok();
}

Result<KvShape> ShapeOf(const ConfigJson& config) {
  KvShape shape;
  shape.model_type = config.Text("model_type");
  KVFERRY_ASSIGN_OR_RETURN(shape.layer_count, config.RequiredNumber({"num_hidden_layers", "n_layer",
                                                                     "n_layers", "num_layers"},
                                                                    kLayersMax));
  KVFERRY_ASSIGN_OR_RETURN(const LayerPlan plan, PlanLayers(config, shape.layer_count));
  shape.notes = plan.notes;
  if (config.Has("kv_lora_rank")) {
    KVFERRY_RETURN_IF_ERROR(AddLatent(config, plan, shape));
  } else if (config.Has("index_head_dim")) {
    return config.Error("index_head_dim", "tells of an indexer, which is covered for MLA only");
  } else {
    KVFERRY_RETURN_IF_ERROR(AddAttention(config, plan, shape));
  }
  KVFERRY_RETURN_IF_ERROR(AddStates(config, plan, shape));
  std::sort(shape.groups.begin(), shape.groups.end(), [](const KvGroup& a, const KvGroup& b) {
    return std::tuple(a.window_tokens, a.elements_per_token) <
           std::tuple(b.window_tokens, b.elements_per_token);
  });
  const auto* known = std::find(std::begin(kKnownTypes), std::end(kKnownTypes), shape.model_type);
  if (known == std::end(kKnownTypes)) {
    shape.notes.push_back("model_type '" + shape.model_type +
                          "' is not known; its fields are read as other models mean them");
  }
  return shape;
}

Result<AttentionHeads> HeadsOf(const ConfigJson& config) {
  KVFERRY_ASSIGN_OR_RETURN(const KvShape shape, ShapeOf(config));
  if (shape.groups.empty() || shape.groups[0].window_tokens > 0) {
    return config.Error("num_hidden_layers", "has no layer that keeps every token");
  }
  const KvGroup& group = shape.groups[0];
  AttentionHeads heads;
  heads.is_latent = group.is_latent;
  if (group.is_latent) {
    KVFERRY_ASSIGN_OR_RETURN(
        heads.query_heads,
        config.RequiredNumber({"num_attention_heads", "n_head", "n_heads"}, kHeadsMax));
    KVFERRY_ASSIGN_OR_RETURN(heads.value_width, config.RequiredNumber({"kv_lora_rank"}, kWidthMax));
    heads.kv_heads = 1;
    heads.key_width = group.elements_per_token;
    return heads;
  }
  KVFERRY_ASSIGN_OR_RETURN(const HeadFields fields, ReadHeads(config));
  heads.query_heads = fields.heads;
  heads.kv_heads = fields.kv_heads;
  heads.key_width = fields.key_width;
  heads.value_width = fields.value_width;
  // block_configs may give each layer heads of its own.
  const bool is_one_group = shape.groups.size() == 1 || shape.groups[1].window_tokens > 0;
  const std::uint32_t both_widths = fields.key_width + fields.value_width;
  if (!is_one_group || group.elements_per_token % both_widths != 0) {
    return config.Error("num_key_value_heads",
                        "is not that of all layers that keep every token; layers that differ are "
                        "not covered");
  }
  heads.kv_heads = group.elements_per_token / both_widths;
  if (heads.query_heads % heads.kv_heads != 0) {
    return config.Error("num_key_value_heads", "does not divide the heads");
  }
  return heads;
}

std::uint64_t BytesOfElements(Wide elements, std::uint32_t element_bits) {
  return Saturated((elements * element_bits + 7) / 8);
}

}  // namespace

Result<KvShape> ReadKvShape(const std::string& path) {
  KVFERRY_ASSIGN_OR_RETURN(const ConfigJson config, ConfigJson::Read(path));
  return ShapeOf(config);
}

Result<KvShape> ParseKvShape(std::string_view text, const std::string& name) {
  KVFERRY_ASSIGN_OR_RETURN(const ConfigJson config, ConfigJson::Parse(text, name));
  return ShapeOf(config);
}

Result<AttentionHeads> ReadAttentionHeads(const std::string& path) {
  KVFERRY_ASSIGN_OR_RETURN(const ConfigJson config, ConfigJson::Read(path));
  return HeadsOf(config);
}

Result<AttentionHeads> ParseAttentionHeads(std::string_view text, const std::string& name) {
  KVFERRY_ASSIGN_OR_RETURN(const ConfigJson config, ConfigJson::Parse(text, name));
  return HeadsOf(config);
}

std::uint64_t BytesPerToken(const KvShape& shape, std::uint32_t element_bits) {
  Wide elements = 0;
  for (const KvGroup& group : shape.groups) {
    elements += Wide{group.layer_count} * group.elements_per_token;
  }
  return BytesOfElements(elements, element_bits);
}

std::uint64_t FullBytesPerToken(const KvShape& shape, std::uint32_t element_bits) {
  Wide elements = 0;
  for (const KvGroup& group : shape.groups) {
    elements += group.window_tokens == 0 ? Wide{group.layer_count} * group.elements_per_token : 0;
  }
  return BytesOfElements(elements, element_bits);
}

std::uint64_t BytesAt(const KvShape& shape, std::uint64_t tokens, std::uint32_t element_bits) {
  Wide elements = 0;
  for (const KvGroup& group : shape.groups) {
    const std::uint64_t kept =
        group.window_tokens == 0 ? tokens : std::min<std::uint64_t>(tokens, group.window_tokens);
    elements += Wide{group.layer_count} * group.elements_per_token * kept;
  }
  return BytesOfElements(elements, element_bits);
}

}  // namespace kvferry::model
