// The rules by which configs say what their layers are.
#include "model/layer_plan.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace kvferry::model {
namespace {

using nlohmann::json;

constexpr std::uint32_t kWindowTokensMax = std::uint32_t{1} << 30;
constexpr std::uint32_t kHeadsMax = 65'536;

// Fields that mean that tokens are kept in a way that the rules here do not know.
constexpr std::string_view kUnknownLayouts[] = {"compress_ratios",
                                                "global_head_dim",
                                                "num_global_key_value_heads",
                                                "cross_attention_layers",
                                                "cla_share_factor",
                                                "block_types",
                                                "layers_block_type",
                                                "attn_type_list",
                                                "linear_attn_config",
                                                "ssm_cfg",
                                                "mixer_types",
                                                "sparse_attention_config"};

// Fields of layers that hold a state instead of tokens.
constexpr std::string_view kStateFields[] = {"linear_num_key_heads", "mamba_expand",
                                             "mamba_num_heads", "mamba_d_state", "ssm_state_size"};

struct LayerType {
  std::string_view name;
  LayerRole role;
};
constexpr LayerType kLayerTypes[] = {
    {"full_attention", LayerRole::kFull},      {"attention", LayerRole::kFull},
    {"sliding_attention", LayerRole::kWindow}, {"chunked_attention", LayerRole::kWindow},
    {"linear_attention", LayerRole::kState},   {"mamba", LayerRole::kState}};

// Types in which a sliding_window alone means that every layer has it.
constexpr std::string_view kWindowEverywhere[] = {"mistral",    "mixtral",   "phi3",   "phimoe",
                                                  "starcoder2", "ministral", "granite"};

// Types in which a sliding_window counts only with use_sliding_window, from layer
// max_window_layers.
constexpr std::string_view kWindowOnRequest[] = {"qwen2",           "qwen2_moe", "qwen2_vl_text",
                                                 "qwen2_5_vl_text", "qwen3",     "qwen3_moe"};

template <std::size_t kCount>
bool IsAmong(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// One config being planned.
class Planner {
 public:
  Planner(const ConfigJson& config, std::uint32_t layer_count)
      : config_(config), type_(config.Text("model_type")) {
    plan_.layers.resize(layer_count);
  }

  Result<LayerPlan> Plan() {
    for (const std::string_view field : kUnknownLayouts) {
      if (config_.Has(field)) {
        return config_.Error(field, "tells of a KV layout that no rule here covers");
      }
    }
    if (config_.IsTrue("is_encoder_decoder")) {
      return config_.Error("is_encoder_decoder", "is true: only decoders are covered");
    }
    KVFERRY_ASSIGN_OR_RETURN(
        const std::optional<std::uint32_t> window,
        config_.Number({"sliding_window", "sliding_window_size"}, kWindowTokensMax));
    window_tokens_ = window.value_or(0);
    KVFERRY_RETURN_IF_ERROR(AssignRoles());
    KVFERRY_RETURN_IF_ERROR(DropSharedLayers());
    for (LayerSpec& layer : plan_.layers) {
      if (layer.role != LayerRole::kWindow) {
        layer.window_tokens = 0;
        continue;
      }
      layer.window_tokens = layer.window_tokens == 0 ? window_tokens_ : layer.window_tokens;
      if (layer.window_tokens == 0) {
        return config_.Error("sliding_window", "is missing, though layers are windowed");
      }
    }
    return std::move(plan_);
  }

 private:
  Status AssignRoles() {
    if (config_.Has("block_configs")) {
      return FromBlockConfigs();
    }
    if (config_.Has("hybrid_override_pattern")) {
      return FromLetters("hybrid_override_pattern", false);
    }
    if (config_.Has("hybrid_layer_pattern")) {
      return FromZeroIsFull("hybrid_layer_pattern");
    }
    if (config_.Has("layer_types")) {
      return FromLayerTypes();
    }
    if (config_.Has("attn_layer_period")) {
      return FromPeriod();
    }
    if (config_.Has("attn_layer_indices")) {
      return FromIndices();
    }
    if (config_.Has("full_attention_interval")) {
      return EveryNthIsFull("full_attention_interval", 0, LayerRole::kState);
    }
    if (config_.Has("sliding_window_pattern")) {
      return config_.At("sliding_window_pattern").is_string()
                 ? FromLetters("sliding_window_pattern", true)
                 : EveryNthIsFull("sliding_window_pattern", 0, LayerRole::kWindow);
    }
    return FromModelType();
  }

  Status FromModelType() {
    for (const std::string_view field : kStateFields) {
      if (config_.Has(field)) {
        return config_.Error(field,
                             "tells of layers without attention, but nothing says which they are");
      }
    }
    if (type_ == "gemma2") {
      return EveryNthIsFull("sliding_window_pattern", 2, LayerRole::kWindow);
    }
    if (type_ == "gemma3" || type_ == "gemma3_text") {
      return EveryNthIsFull("sliding_window_pattern", 6, LayerRole::kWindow);
    }
    if (type_ == "cohere2") {
      return EveryNthIsFull("sliding_window_pattern", 4, LayerRole::kWindow);
    }
    if (type_ == "llama4_text") {
      KVFERRY_RETURN_IF_ERROR(TakeChunkAsWindow());
      if (config_.Has("no_rope_layers") && !config_.At("no_rope_layers").empty()) {
        return FromZeroIsFull("no_rope_layers");
      }
      return EveryNthIsFull("no_rope_layer_interval", 4, LayerRole::kWindow);
    }
    if (window_tokens_ == 0 || config_.IsFalse("use_sliding_window")) {
      return Status::Ok();
    }
    if (IsAmong(kWindowOnRequest, type_)) {
      return FromMaxWindowLayers();
    }
    if (!IsAmong(kWindowEverywhere, type_)) {
      return config_.Error("sliding_window", "is set, but model_type '" + type_ +
                                                 "' is not known to say which layers it is for");
    }
    for (LayerSpec& layer : plan_.layers) {
      layer.role = LayerRole::kWindow;
    }
    return Status::Ok();
  }

  // Qwen: windows, where asked for, begin at layer max_window_layers.
  Status FromMaxWindowLayers() {
    if (!config_.IsTrue("use_sliding_window")) {
      return Status::Ok();
    }
    KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t first_index,
                             config_.RequiredNumber({"max_window_layers"}, kWindowTokensMax));
    for (std::size_t i = first_index; i < plan_.layers.size(); ++i) {
      plan_.layers[i].role = LayerRole::kWindow;
    }
    return Status::Ok();
  }

  // Chunks of a fixed size stand for windows of that size: a layer needs at most one chunk.
  Status TakeChunkAsWindow() {
    KVFERRY_ASSIGN_OR_RETURN(window_tokens_,
                             config_.RequiredNumber({"attention_chunk_size"}, kWindowTokensMax));
    return Status::Ok();
  }

  // Of each `interval` layers the last is full, the others have `role`.
  Status EveryNthIsFull(std::string_view field,
                        std::uint32_t interval_without_field,
                        LayerRole role) {
    KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> given,
                             config_.Number({field}, kWindowTokensMax));
    const std::uint32_t interval = given.value_or(interval_without_field);
    if (interval == 0) {
      return config_.Error(field, "is 0");
    }
    for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
      plan_.layers[i].role = (i + 1) % interval == 0 ? LayerRole::kFull : role;
    }
    return Status::Ok();
  }

  // A letter a layer; where `is_repeated`, the letters of the first few, over and over.
  Status FromLetters(std::string_view field, bool is_repeated) {
    const std::string letters = config_.Text(field);
    if (letters.empty() || (!is_repeated && letters.size() != plan_.layers.size())) {
      return config_.Error(field, "has " + std::to_string(letters.size()) + " letters for " +
                                      std::to_string(plan_.layers.size()) + " layers");
    }
    for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
      const char letter = letters[i % letters.size()];
      switch (letter) {
        case '*':
        case 'G':
          plan_.layers[i].role = LayerRole::kFull;
          break;
        case 'L':
          plan_.layers[i].role = LayerRole::kWindow;
          break;
        case 'M':
          plan_.layers[i].role = LayerRole::kState;
          break;
        case '-':
        case 'E':
          plan_.layers[i].role = LayerRole::kNothing;
          break;
        default:
          return config_.Error(field, std::string("has a layer of unknown kind '") + letter + "'");
      }
    }
    return Status::Ok();
  }

  // The list under `field`, which must have one item a layer.
  Result<const json*> List(std::string_view field) const {
    const json& list = config_.At(field);
    if (!list.is_array() || list.size() != plan_.layers.size()) {
      return config_.Error(
          field, "is not a list of " + std::to_string(plan_.layers.size()) + ", one item a layer");
    }
    return &list;
  }

  Status FromZeroIsFull(std::string_view field) {
    KVFERRY_ASSIGN_OR_RETURN(const json* list, List(field));
    for (std::size_t i = 0; i < list->size(); ++i) {
      if ((*list)[i] != 0 && (*list)[i] != 1) {
        return config_.Error(field, "has an item that is neither 0 (full) nor 1 (windowed)");
      }
      plan_.layers[i].role = (*list)[i] == 0 ? LayerRole::kFull : LayerRole::kWindow;
    }
    return Status::Ok();
  }

  Status FromLayerTypes() {
    KVFERRY_ASSIGN_OR_RETURN(const json* list, List("layer_types"));
    bool is_chunked = false;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const json& type = (*list)[i];
      const auto* known =
          std::find_if(std::begin(kLayerTypes), std::end(kLayerTypes),
                       [&](const LayerType& candidate) { return type == candidate.name; });
      if (known == std::end(kLayerTypes)) {
        return config_.Error("layer_types",
                             "has a layer of unknown kind " + type.dump().substr(0, 60));
      }
      plan_.layers[i].role = known->role;
      is_chunked = is_chunked || known->name == "chunked_attention";
    }
    return is_chunked ? TakeChunkAsWindow() : Status::Ok();
  }

  Status FromPeriod() {
    KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t period,
                             config_.RequiredNumber({"attn_layer_period"}, kWindowTokensMax));
    KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> offset,
                             config_.Number({"attn_layer_offset"}, period - 1));
    if (!offset) {
      return config_.Error("attn_layer_offset", "is missing, though attn_layer_period is there");
    }
    for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
      plan_.layers[i].role = i % period == *offset ? LayerRole::kFull : LayerRole::kState;
    }
    return Status::Ok();
  }

  Status FromIndices() {
    for (LayerSpec& layer : plan_.layers) {
      layer.role = LayerRole::kState;
    }
    const json& list = config_.At("attn_layer_indices");
    for (const json& index : list) {
      if (!index.is_number_unsigned() || index.get<std::uint64_t>() >= plan_.layers.size()) {
        return config_.Error("attn_layer_indices",
                             "has an item that is no layer: " + index.dump().substr(0, 60));
      }
      plan_.layers[index.get<std::size_t>()].role = LayerRole::kFull;
    }
    return Status::Ok();
  }

  // Models that a search has thinned out: each layer tells for itself.
  Status FromBlockConfigs() {
    KVFERRY_ASSIGN_OR_RETURN(const json* list, List("block_configs"));
    for (std::size_t i = 0; i < list->size(); ++i) {
      const json& block = (*list)[i];
      const auto attention = block.is_object() ? block.find("attention") : block.end();
      if (!block.is_object() || attention == block.end() || !attention->is_object()) {
        return config_.Error("block_configs", "has no 'attention' for layer " + std::to_string(i));
      }
      const auto value = [&](const char* name) {
        return attention->value(name, json());
      };
      LayerSpec& layer = plan_.layers[i];
      if (value("no_op") == true || value("replace_with_linear") == true) {
        layer.role = LayerRole::kNothing;
        continue;
      }
      const json heads = value("n_heads_in_group");
      const json window = value("window_length");
      if (!heads.is_number_unsigned() || heads == 0 || heads.get<std::uint64_t>() > kHeadsMax) {
        return config_.Error("block_configs",
                             "has no n_heads_in_group for layer " + std::to_string(i));
      }
      layer.heads_in_group = heads.get<std::uint32_t>();
      if (window.is_number_unsigned() && window.get<std::uint64_t>() <= kWindowTokensMax) {
        layer.role = LayerRole::kWindow;
        layer.window_tokens = window.get<std::uint32_t>();
      } else if (!window.is_null()) {
        return config_.Error("block_configs",
                             "has a bad window_length for layer " + std::to_string(i));
      }
    }
    return Status::Ok();
  }

  // Gemma 3n: the last layers read the KV of earlier ones.
  Status DropSharedLayers() {
    const auto layer_count = static_cast<std::uint32_t>(plan_.layers.size());
    KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> shared,
                             config_.Number({"num_kv_shared_layers"}, layer_count));
    for (std::size_t i = layer_count - shared.value_or(0); i < layer_count; ++i) {
      plan_.layers[i].role = LayerRole::kNothing;
    }
    return Status::Ok();
  }

  const ConfigJson& config_;
  std::string type_;
  std::uint32_t window_tokens_ = 0;
  LayerPlan plan_;
};

}  // namespace

Result<LayerPlan> PlanLayers(const ConfigJson& config, std::uint32_t layer_count) {
  return Planner(config, layer_count).Plan();
}

}  // namespace kvferry::model
