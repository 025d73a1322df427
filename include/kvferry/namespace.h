// Namespace: everything but the tokens that decides the bytes of a block, and its digest.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/export.h"
#include "kvferry/status.h"

namespace kvferry {

// Whose blocks these are. Required: blocks of one tenant are never hits of another, and sharing
// between all has to be asked for by name.
//
// The secret of a private tenant (a salt from a gateway that its users do not know) enters digests
// through HMAC-SHA-256 only, and no text form of ours shows it.
class KVFERRY_EXPORT Tenant {
 public:
  Tenant() = default;  // None; refused by IdentifyNamespace.
  static Tenant Shared();
  // An empty secret makes no tenant and is refused.
  static Tenant Private(std::string secret);

  bool is_shared() const noexcept { return is_shared_; }
  bool is_private() const noexcept { return !is_shared_ && !secret_.empty(); }
  const std::string& secret() const noexcept { return secret_; }
  bool operator==(const Tenant&) const = default;

 private:
  std::string secret_;
  bool is_shared_ = false;
};

// What one layer group keeps of a token. The numbers are part of the digest: append, never
// renumber.
enum class LayerGroupKind : std::uint8_t {
  kFullAttention = 1,
  kSlidingWindow = 2,
  kLatent = 3,     // MLA: one compressed vector instead of K and V.
  kRecurrent = 4,  // A state checkpoint at the block's end.
  kShared = 5,     // Computed by one layer, read by several.
  kAuxiliary = 6,  // A draft model's KV, encoder outputs.
};

struct LayerGroup {
  LayerGroupKind kind = LayerGroupKind::kFullAttention;
  std::uint32_t index = 0;          // Tells apart groups of one model, also those of equal shape.
  std::uint32_t layer_count = 0;    // In the whole model.
  std::uint32_t kv_head_count = 0;  // In the whole model.
  std::uint32_t key_width = 0;  // Elements a head; the whole latent vector or state for its kinds.
  std::uint32_t value_width = 0;    // 0 where there is no V.
  std::uint32_t window_tokens = 0;  // 0: none.
};

// How elements are stored. The numbers are part of the digest: append, never renumber.
enum class ElementType : std::uint8_t {
  kNone = 0,  // Only for V, where there is none.
  kFloat32 = 1,
  kFloat16 = 2,
  kBFloat16 = 3,
  kFloat8E4M3 = 4,
  kFloat8E5M2 = 5,
  kInt8 = 6,
  kInt4 = 7,
  kUInt8 = 8,  // Opaque bytes whose meaning the layout's name tells.
};

// Whether a block may have gone through a codec that changes it. Numbers as above.
enum class ExactnessClass : std::uint8_t { kExact = 1, kLossyStorage = 2 };

// Rotary position embedding as it went into the stored keys.
struct RopeState {
  bool is_rotated = true;   // Whether stored keys are rotated already.
  double base = 0;          // 0: the model has none.
  std::uint32_t width = 0;  // Rotated elements a head; 0: the whole head.
  std::string scaling;      // Rule and all its parameters in one fixed spelling; empty: none.
};

// The part of the model that a block covers, as a rectangle of layers and KV heads of its group,
// both half open. Not rank and size, so servers with other parallel splits can share blocks.
struct ParallelRectangle {
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  std::uint32_t kv_head_begin = 0;
  std::uint32_t kv_head_end = 0;
  // Context parallelism: a block holds every token_stride-th token, from the token_offset-th on.
  std::uint32_t token_stride = 1;
  std::uint32_t token_offset = 0;
};

// Two blocks of equal tokens have equal bytes if all these fields are equal, and only then a key in
// common. Texts are compared byte by byte; spell one thing in one way.
struct Namespace {
  std::uint32_t format_version =
      1;  // Goes up when the bytes of a block change in a way not told below.
  Tenant tenant;
  std::string model_id;
  std::string model_revision;  // Digest or commit of the weights.
  LayerGroup layer_group;
  ElementType key_type = ElementType::kBFloat16;
  ElementType value_type = ElementType::kBFloat16;
  std::string scales;  // Kind, granularity and digest of fixed scales; empty: unscaled.
  std::string layout;  // The server's resolved layout name, such as "LBHNC".
  std::vector<std::uint64_t> strides;  // In elements, outermost first; empty: dense.
  std::uint32_t block_tokens = 0;
  RopeState rope;
  ParallelRectangle rectangle;
  std::string lora_id;  // Both empty without an adapter.
  std::string lora_digest;
  ExactnessClass exactness = ExactnessClass::kExact;
  std::string
      hash_scheme;  // Of a caller that brings its own block hashes, seed included; else empty.
};

// SHA-256 of a Namespace; docs/block-keys.md has the bytes.
struct NamespaceId {
  std::array<std::byte, 32> bytes{};
  auto operator<=>(const NamespaceId&) const = default;
};

// kInvalidArgument, naming the field, the reason and the remedy, where a required field is missing
// (tenant, model id and revision, block tokens, a shape) or fields contradict each other.
KVFERRY_EXPORT Result<NamespaceId> IdentifyNamespace(const Namespace& description);

// One line for people and logs; a private tenant shows as "private".
KVFERRY_EXPORT std::string ToString(const Namespace& description);

KVFERRY_EXPORT std::string ToHex(const NamespaceId& id);

}  // namespace kvferry
