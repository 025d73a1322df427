// BlockCopy: blocks scattered over a server's paged tensors against contiguous ones, and the index
// arithmetic between the two.
#pragma once

#include <cstdint>

#include "gpu/kernels/both_sides.h"

namespace kvferry::gpu {

// What a copy moves at a time: 128 bits. Rows, steps and addresses are multiples of it.
inline constexpr std::int64_t kVectorBytes = 16;

// How one plane (K or V of one layer, both packed, or the MLA latent) lies in pages. A row is one
// head of one token, contiguous. Any layout is a choice of steps: NHD has head_step = row_vectors,
// HND has token_step = row_vectors, and packed K and V are two planes with one page_step.
struct PagedLayout {
  std::int64_t page_step = 0;  // In vectors, as all steps.
  std::int64_t token_step = 0;
  std::int64_t head_step = 0;
  std::int32_t page_tokens = 0;
  std::int32_t heads = 0;
  std::int32_t row_vectors = 0;
};

// Where a block's tokens are. Its first token is `first_token` of the page `pages[first_page]`; the
// following pages continue it, so our blocks and the server's pages need not have one size.
struct BlockPlace {
  std::int32_t first_page = 0;
  std::int32_t first_token = 0;
  std::int32_t tokens = 0;  // Those behind are not there.
};

// The argument of kvferry_gather_blocks and kvferry_scatter_blocks; pointers are device addresses.
// A contiguous block is [plane][token][head][row], whatever the server's layout is. Tokens that
// are not there (a negative page, or behind `tokens`) are gathered as zeros and not scattered.
struct BlockCopy {
  PagedLayout layout;
  unsigned char* const* planes = nullptr;  // Where page 0 of each plane is.
  const std::int32_t* pages = nullptr;
  const BlockPlace* places = nullptr;  // By block; blockIdx.y is the block.
  unsigned char* blocks = nullptr;     // One after the other.
  std::int32_t plane_count = 0;
  std::int32_t block_tokens = 0;
};

KVFERRY_BOTH_SIDES std::int64_t BlockVectors(const BlockCopy& copy) {
  return static_cast<std::int64_t>(copy.plane_count) * copy.block_tokens * copy.layout.heads *
         copy.layout.row_vectors;
}

// One vector of a contiguous block, as it lies in the server's tensors.
struct VectorPlace {
  std::int32_t plane = 0;
  std::int32_t page_place = 0;  // Into the list of pages.
  std::int64_t offset = 0;      // In vectors, from the start of the page.
  bool is_there = false;
};

KVFERRY_BOTH_SIDES VectorPlace PlaceOf(const BlockCopy& copy,
                                       const BlockPlace& block,
                                       std::int64_t vector) {
  const PagedLayout& layout = copy.layout;
  VectorPlace place;
  const std::int64_t row = vector / layout.row_vectors;
  const std::int64_t token_row = row / layout.heads;
  const std::int64_t token = token_row % copy.block_tokens;
  const std::int64_t position = block.first_token + token;
  place.plane = static_cast<std::int32_t>(token_row / copy.block_tokens);
  place.page_place = block.first_page + static_cast<std::int32_t>(position / layout.page_tokens);
  place.offset = position % layout.page_tokens * layout.token_step +
                 row % layout.heads * layout.head_step + vector % layout.row_vectors;
  place.is_there = token < block.tokens;
  return place;
}

}  // namespace kvferry::gpu
