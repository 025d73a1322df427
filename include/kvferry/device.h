// What a server says of its tensors on a GPU, for blocks that are copied from and to them. Needs no
// CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/requests.h"
#include "kvferry/types.h"

struct CUstream_st;  // What a cudaStream_t points to.

namespace kvferry {

using NativeStream = ::CUstream_st*;

// One layer group's paged tensors. A plane is K or V of one layer, both packed, or the MLA latent;
// a row is one head of one token. Head `h` of token `t` of page `p` begins at
// planes[i] + p * page_step_bytes + t * token_step_bytes + h * head_step_bytes.
struct DeviceTensors {
  std::span<std::byte* const> planes;  // Device addresses of page 0; layer by layer. Copied.
  std::uint32_t layers = 0;            // Each has the same number of planes.
  std::uint64_t page_step_bytes = 0;
  std::uint64_t token_step_bytes = 0;
  std::uint64_t head_step_bytes = 0;
  std::uint32_t pages = 0;
  std::uint32_t page_tokens = 0;
  std::uint32_t heads = 0;
  std::uint32_t row_bytes = 0;
  std::uint32_t block_tokens = 0;  // Of the engine's blocks; pages need not have that size.
};

// Tensors that were registered with an engine. A plain value; only that engine understands it.
struct TensorsHandle {
  std::uint32_t index = 0xffffffff;
  std::uint32_t generation = 0;  // 0 never names any.
  auto operator<=>(const TensorsHandle&) const = default;
};

// Where one block lies: its first token is `first_token` of `pages[0]`, the following pages
// continue it, as many as its tokens reach.
struct DeviceBlock {
  std::span<const std::int32_t> pages;
  std::uint32_t first_token = 0;
};

// Stores blocks that a GPU has computed. Keys, blocks and their page numbers are borrowed until the
// completion; so are the pages themselves: until then nobody writes them or frees their memory.
struct DevicePutRequest {
  NamespaceHandle in;
  std::span<const BlockKey> keys;  // As PutRequest has them.
  TensorsHandle tensors;
  std::span<const DeviceBlock> blocks;  // One for each key.
  // The blocks are complete once what this stream was given before the call is done.
  NativeStream producer = nullptr;
  const BlockKey* parent = nullptr;
  RequestOptions options = {};
};

// Copies the leading blocks of a path that are there into pages of a server's. Borrows like
// DevicePutRequest; the pages are the engine's to write until the completion.
struct DeviceGetRequest {
  NamespaceHandle in;
  std::span<const BlockKey> keys;
  TensorsHandle tensors;
  std::span<const DeviceBlock> blocks;  // One for each key; no page is named twice.
  // Nothing is written before what this stream was given until the call is done: the last use of
  // the pages. Null: they are free already.
  NativeStream last_user = nullptr;
  RequestOptions options = {};
};

}  // namespace kvferry
