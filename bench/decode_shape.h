// DecodeShape: what a model's layers keep of a token and how its heads attend, for `bench decode`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/status.h"

namespace kvferry::bench {

// Layers that keep every token, in bf16. The default is a toy's.
struct DecodeShape {
  std::string name = "toy";
  std::uint32_t layers = 2;
  std::uint32_t query_heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t key_width = 64;  // Elements a head.
  std::uint32_t value_width = 64;
  bool is_latent = false;  // MLA: values are the first part of the keys, and there is one plane.
  std::uint32_t block_tokens = 16;
  std::vector<std::string> notes;  // What a report must say: layers that were left out.

  std::uint32_t planes_per_layer() const { return is_latent ? 1 : 2; }
  std::uint32_t planes() const { return layers * planes_per_layer(); }
  std::uint64_t row_bytes() const { return std::uint64_t{2} * key_width; }
  // Of one token, and one block, in one plane.
  std::uint64_t token_bytes() const { return kv_heads * row_bytes(); }
  std::uint64_t page_bytes() const { return block_tokens * token_bytes(); }
  std::uint64_t block_bytes() const { return planes() * page_bytes(); }
  // What attention leaves of one token in one layer.
  std::uint64_t output_bytes() const { return std::uint64_t{2} * query_heads * value_width; }
};

// The layers of a config.json that keep every token, `layers_max` of them at most (0: all).
// kIoError or kInvalidArgument as model::ReadKvShape, and kInvalidArgument for widths that there is
// no decode kernel for.
Result<DecodeShape> ReadDecodeShape(const std::string& path, std::uint32_t layers_max);

}  // namespace kvferry::bench
