// PagedDecode and PartialMerge: attention of one new token over paged keys and values, in splits.
#pragma once

#include <cstdint>

#include "gpu/kernels/both_sides.h"

namespace kvferry::gpu {

enum class StoredFormat : std::int32_t {
  kNative,  // As the queries: bf16 or fp16.
  kE4m3,
  kInt8,
};

enum class ScaleKind : std::int32_t {
  kNone,
  kPerHead,     // scales[head].
  kPerRow,      // scales[(page * page_tokens + token) * heads + head].
  kPerChannel,  // scales[(page * heads + head) * row size + element], over a page's tokens.
};

// Keys or values in pages; steps in elements.
struct PagedSide {
  const void* pages = nullptr;
  std::int64_t page_step = 0;
  std::int64_t token_step = 0;
  std::int64_t head_step = 0;
  const float* scales = nullptr;
  ScaleKind scale_kind = ScaleKind::kNone;
};

// The argument of kvferry_decode_*: sizes of key and value rows are in the kernel's name, `mla`
// being 576 and 512 with one KV head, whose values are the first 512 elements of its keys.
//
// Each split of a sequence's visible tokens gives a partial result: the largest logit and the sum
// of exponentials beside it, both to base 2, and outputs not yet divided by that sum. Partials of
// anywhere can be merged. A page below zero is a hole: its tokens are not there.
struct PagedDecode {
  const void* queries = nullptr;  // [batch][head][key row].
  PagedSide keys;
  PagedSide values;
  const std::int32_t* tables = nullptr;   // Pages of each sequence, table_step apart.
  const std::int32_t* lengths = nullptr;  // Tokens of each sequence.
  float* partial_outputs = nullptr;       // [batch][head][split][value row].
  float* partial_stats = nullptr;         // [batch][head][split][2]: maximum, sum.
  std::int64_t table_step = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;  // Divides heads.
  std::int32_t page_tokens = 0;
  std::int32_t window = 0;       // Only the last so many tokens; 0: all,
  std::int32_t sink_tokens = 0;  // and besides them the first so many.
  StoredFormat format = StoredFormat::kNative;
  float scale_log2 = 0;  // The softmax scale times the logarithm of e to base 2.
};

// The argument of kvferry_merge_partials_*.
struct PartialMerge {
  const float* partial_outputs = nullptr;
  const float* partial_stats = nullptr;
  const float* sink_logits = nullptr;  // A logit a head that takes part without a value; or null.
  void* outputs = nullptr;             // [batch][head][value row], bf16 or fp16.
  std::int32_t heads = 0;
  std::int32_t splits = 0;
  std::int32_t value_size = 0;
};

// How many tokens of a sequence are attended to.
KVFERRY_BOTH_SIDES std::int32_t VisibleTokens(std::int32_t length,
                                              std::int32_t window,
                                              std::int32_t sink_tokens) {
  return window <= 0 || length - window <= sink_tokens ? length : window + sink_tokens;
}

// The `index`-th of them, in order.
KVFERRY_BOTH_SIDES std::int32_t VisibleToken(std::int32_t index,
                                             std::int32_t length,
                                             std::int32_t visible,
                                             std::int32_t sink_tokens) {
  return visible == length || index < sink_tokens ? index : length - visible + index;
}

}  // namespace kvferry::gpu
