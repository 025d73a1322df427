// The two namespaces of the golden keys, and every way to change one field of a namespace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvferry/namespace.h"

namespace kvferry::testing {

inline Namespace SharedNamespace() {
  Namespace n;
  n.tenant = Tenant::Shared();
  n.model_id = "llama-3.1-8b";
  n.model_revision = "0e9e39f249a16976";
  n.layer_group = {.kind = LayerGroupKind::kFullAttention,
                   .layer_count = 32,
                   .kv_head_count = 8,
                   .key_width = 128,
                   .value_width = 128};
  n.layout = "LBHNC";
  n.block_tokens = 16;
  n.rope = {.is_rotated = true, .base = 500000, .scaling = "llama3 8 1 4 8192"};
  n.rectangle = {.layer_begin = 0, .layer_end = 32, .kv_head_begin = 0, .kv_head_end = 8};
  return n;
}

inline Namespace PrivateNamespace() {
  Namespace n;
  n.tenant = Tenant::Private(std::string("\0salt of tenant seven\xff", 22));
  n.model_id = "deepseek-v3";
  n.model_revision = "sha256:1d2c";
  n.layer_group = {.kind = LayerGroupKind::kLatent,
                   .index = 1,
                   .layer_count = 61,
                   .kv_head_count = 1,
                   .key_width = 576};
  n.key_type = ElementType::kFloat8E4M3;
  n.value_type = ElementType::kNone;
  n.scales = "tensor 9f";
  n.layout = "BLHNC";
  n.strides = {36864, 576, 1};
  n.block_tokens = 64;
  n.rope = {.is_rotated = false, .base = 10000, .width = 64, .scaling = "yarn 40 32 1 4096"};
  n.rectangle = {.layer_begin = 30,
                 .layer_end = 61,
                 .kv_head_begin = 0,
                 .kv_head_end = 1,
                 .token_stride = 4,
                 .token_offset = 3};
  n.lora_id = "legal";
  n.lora_digest = "77aa";
  n.exactness = ExactnessClass::kLossyStorage;
  n.hash_scheme = "vllm sha256_cbor seed 0";
  return n;
}

// One change of one field that leaves a valid namespace valid, given that its rectangle does not
// fill its group and that it has an adapter.
struct FieldChange {
  std::string_view field;
  void (*apply)(Namespace& n);
};

// Changes of every field.
inline constexpr FieldChange kFieldChanges[] = {
    {"format_version",
     [](Namespace& n) {
       ++n.format_version;
     }},
    {"tenant",
     [](Namespace& n) {
       n.tenant = Tenant::Private(n.tenant.secret() + "x");
     }},
    {"model_id",
     [](Namespace& n) {
       n.model_id += "x";
     }},
    {"model_revision",
     [](Namespace& n) {
       n.model_revision += "x";
     }},
    {"layer_group.kind",
     [](Namespace& n) {
       n.layer_group.kind = n.layer_group.kind == LayerGroupKind::kRecurrent
                                ? LayerGroupKind::kShared
                                : LayerGroupKind::kRecurrent;
     }},
    {"layer_group.index",
     [](Namespace& n) {
       ++n.layer_group.index;
     }},
    {"layer_group.layer_count",
     [](Namespace& n) {
       ++n.layer_group.layer_count;
     }},
    {"layer_group.kv_head_count",
     [](Namespace& n) {
       ++n.layer_group.kv_head_count;
     }},
    {"layer_group.key_width",
     [](Namespace& n) {
       ++n.layer_group.key_width;
     }},
    {"layer_group.value_width",
     [](Namespace& n) {
       ++n.layer_group.value_width;
     }},
    // Only an auxiliary group may have a window or not, so this change alone is not of one field.
    {"layer_group.window_tokens",
     [](Namespace& n) {
       n.layer_group.kind = LayerGroupKind::kAuxiliary;
       n.layer_group.window_tokens += 4096;
     }},
    {"key_type",
     [](Namespace& n) {
       n.key_type = n.key_type == ElementType::kInt8 ? ElementType::kInt4 : ElementType::kInt8;
     }},
    {"value_type",
     [](Namespace& n) {
       n.value_type = n.value_type == ElementType::kInt8 ? ElementType::kInt4 : ElementType::kInt8;
     }},
    {"scales",
     [](Namespace& n) {
       n.scales += "x";
     }},
    {"layout",
     [](Namespace& n) {
       n.layout += "x";
     }},
    {"strides",
     [](Namespace& n) {
       n.strides.push_back(7);
     }},
    {"block_tokens",
     [](Namespace& n) {
       ++n.block_tokens;
     }},
    {"rope.is_rotated",
     [](Namespace& n) {
       n.rope.is_rotated = !n.rope.is_rotated;
     }},
    {"rope.base",
     [](Namespace& n) {
       n.rope.base += 1;
     }},
    {"rope.width",
     [](Namespace& n) {
       ++n.rope.width;
     }},
    {"rope.scaling",
     [](Namespace& n) {
       n.rope.scaling += "x";
     }},
    {"rectangle.layer_begin",
     [](Namespace& n) {
       ++n.rectangle.layer_begin;
     }},
    {"rectangle.layer_end",
     [](Namespace& n) {
       ++n.rectangle.layer_end;
     }},
    {"rectangle.kv_head_begin",
     [](Namespace& n) {
       ++n.rectangle.kv_head_begin;
     }},
    {"rectangle.kv_head_end",
     [](Namespace& n) {
       ++n.rectangle.kv_head_end;
     }},
    {"rectangle.token_stride",
     [](Namespace& n) {
       ++n.rectangle.token_stride;
     }},
    {"rectangle.token_offset",
     [](Namespace& n) {
       ++n.rectangle.token_offset;
     }},
    {"lora_id",
     [](Namespace& n) {
       n.lora_id += "x";
     }},
    {"lora_digest",
     [](Namespace& n) {
       n.lora_digest += "x";
     }},
    {"exactness",
     [](Namespace& n) {
       n.exactness = n.exactness == ExactnessClass::kExact ? ExactnessClass::kLossyStorage
                                                           : ExactnessClass::kExact;
     }},
    {"hash_scheme",
     [](Namespace& n) {
       n.hash_scheme += "x";
     }},
};

// Stops compiling when a struct gains a field, and says: add its change above, its tag in
// namespace.cc and docs/block-keys.md, and its line in make_golden_keys.py.
inline void NameEveryField() {
  [[maybe_unused]] const auto& [n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15,
                                n16, n17] = Namespace();
  [[maybe_unused]] const auto& [g1, g2, g3, g4, g5, g6, g7] = LayerGroup();
  [[maybe_unused]] const auto& [r1, r2, r3, r4] = RopeState();
  [[maybe_unused]] const auto& [p1, p2, p3, p4, p5, p6] = ParallelRectangle();
}

}  // namespace kvferry::testing
