// KvShape: what a model's layers keep of a token, read from its config.json, and bytes of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

namespace kvferry::model {

// Layers that keep alike.
struct KvGroup {
  std::uint32_t layer_count = 0;
  // Of one layer: K plus V, or the one latent vector of MLA.
  std::uint32_t elements_per_token = 0;
  std::uint32_t window_tokens = 0;  // Only the last so many are needed; 0: every token.
  bool is_latent = false;
  bool operator==(const KvGroup&) const = default;
};

// Layers that hold a state of fixed size for each sequence (Mamba, linear attention).
struct StateGroup {
  std::uint32_t layer_count = 0;
  std::uint64_t convolution_elements = 0;  // Of one layer.
  std::uint64_t recurrent_elements = 0;    // Of one layer.
  bool operator==(const StateGroup&) const = default;
};

// Multi-token-prediction layers are not counted, nothing is divided by a parallel degree.
struct KvShape {
  std::string model_type;
  std::uint32_t layer_count = 0;  // All of the model's, also those that keep nothing.
  std::vector<KvGroup> groups;    // Whole-context ones first, then by window.
  std::vector<StateGroup> states;
  // Keys of a sparse-attention indexer, all layers together; not part of the bytes below.
  std::uint64_t indexer_elements_per_token = 0;
  std::vector<std::string> notes;  // What a report must say: a model type that is not known.
};

// How the layers that keep every token attend to it, where all of them do alike.
struct AttentionHeads {
  std::uint32_t query_heads = 0;
  std::uint32_t kv_heads = 0;     // 1 for a latent.
  std::uint32_t key_width = 0;    // Elements a head; the whole latent vector for MLA,
  std::uint32_t value_width = 0;  // whose first part is its values.
  bool is_latent = false;
  bool operator==(const AttentionHeads&) const = default;
};

inline constexpr std::uint32_t kBFloat16Bits = 16;

// kIoError for a file that cannot be read. kInvalidArgument, naming file, field, reason and remedy,
// for one that is no config, lacks a field, or describes a layout that no rule here covers: a wrong
// number would look just like a right one.
Result<KvShape> ReadKvShape(const std::string& path);
// The same from a text; `name` stands for the path in errors.
Result<KvShape> ParseKvShape(std::string_view text, const std::string& name);

// Of the same file. Errors as ReadKvShape; also where no layer keeps every token, and where such
// layers differ in their heads.
Result<AttentionHeads> ReadAttentionHeads(const std::string& path);
Result<AttentionHeads> ParseAttentionHeads(std::string_view text, const std::string& name);

// Bytes that one more token takes in a store that keeps every token of every layer; rounded up.
std::uint64_t BytesPerToken(const KvShape& shape, std::uint32_t element_bits = kBFloat16Bits);
// The part of it in layers that need every token.
std::uint64_t FullBytesPerToken(const KvShape& shape, std::uint32_t element_bits = kBFloat16Bits);
// Bytes that a sequence of `tokens` needs: windows hold no more than they reach. Stays at the
// greatest number where it would pass it.
std::uint64_t BytesAt(const KvShape& shape,
                      std::uint64_t tokens,
                      std::uint32_t element_bits = kBFloat16Bits);

}  // namespace kvferry::model
