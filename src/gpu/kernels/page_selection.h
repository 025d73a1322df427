// PageSummaries and PageSelection: which pages matter to a query, by bounds of their keys.
#pragma once

#include <cstdint>

namespace kvferry::gpu {

// The argument of kvferry_summarize_pages_*: for each listed page, KV head and channel the least
// and the largest key over its tokens. blockIdx.x counts the list, blockIdx.y is the KV head.
struct PageSummaries {
  const void* keys = nullptr;  // bf16 or fp16 by the kernel's name; steps in elements.
  std::int64_t page_step = 0;
  std::int64_t token_step = 0;
  std::int64_t head_step = 0;
  const std::int32_t* pages = nullptr;   // The list.
  const std::int32_t* tokens = nullptr;  // Tokens in each listed page; at least 1.
  void* summaries = nullptr;             // [page][head][2][channel], by the page's own number.
  std::int32_t kv_heads = 0;
  std::int32_t head_size = 0;
};

// The argument of kvferry_select_pages_*: the pages whose keys can have the largest logits for the
// queries of a KV head's group: the bound of a page is the sum over channels of the larger of
// query times least and query times largest key, the largest over the group's queries (Tang et al.:
// Quest, 2024). blockIdx.x is the KV head, blockIdx.y the sequence.
struct PageSelection {
  const void* queries = nullptr;         // [batch][head][channel].
  const void* summaries = nullptr;       // As above.
  const std::int32_t* tables = nullptr;  // Pages of each sequence, table_step apart.
  const std::int32_t* counts = nullptr;  // Pages of each sequence.
  float* scores = nullptr;               // [batch][KV head][table_step]; overwritten.
  std::int32_t* selected = nullptr;      // [batch][KV head][top]: places in the table, best first;
                                         // of equal ones the earlier; -1 where there are no more.
  std::int64_t table_step = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_size = 0;
  std::int32_t top = 0;
};

}  // namespace kvferry::gpu
