// Kernels: bounds of the keys in a page, and the pages that a query wants most.
#pragma once

#include "gpu/kernels/numbers.cuh"
#include "gpu/kernels/page_selection.h"

namespace kvferry::gpu {

inline constexpr int kSelectWarps = 4;

template <class Element>
__device__ void SummarizePages(const PageSummaries& work) {
  const std::int64_t page = work.pages[blockIdx.x];
  const int tokens = work.tokens[blockIdx.x];
  const std::int64_t head = blockIdx.y;
  const Element* const keys =
      static_cast<const Element*>(work.keys) + page * work.page_step + head * work.head_step;
  Element* const least =
      static_cast<Element*>(work.summaries) + (page * work.kv_heads + head) * 2 * work.head_size;
  for (int d = static_cast<int>(threadIdx.x); d < work.head_size;
       d += static_cast<int>(blockDim.x)) {
    float low = INFINITY;
    float high = -INFINITY;
    for (int token = 0; token < tokens; ++token) {
      const float key = ToFloat(keys[token * work.token_step + d]);
      low = fminf(low, key);
      high = fmaxf(high, key);
    }
    least[d] = FromFloat<Element>(low);
    least[work.head_size + d] = FromFloat<Element>(high);
  }
}

// The better of two candidates: the larger score, of equal ones the earlier place.
struct Candidate {
  float score;
  int place;

  __device__ void Consider(float other_score, int other_place) {
    if (other_place >= 0 &&
        (place < 0 || other_score > score || (other_score == score && other_place < place))) {
      score = other_score;
      place = other_place;
    }
  }
};

template <class Element>
__device__ float ScoreOfPage(const PageSelection& work, int sequence, int kv_head, int page) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int group = work.heads / work.kv_heads;
  const Element* const least =
      static_cast<const Element*>(work.summaries) +
      (static_cast<std::int64_t>(page) * work.kv_heads + kv_head) * 2 * work.head_size;
  float best = -INFINITY;
  for (int i = 0; i < group; ++i) {
    const Element* const query =
        static_cast<const Element*>(work.queries) +
        (static_cast<std::int64_t>(sequence) * work.heads + kv_head * group + i) * work.head_size;
    float bound = 0.0F;
    for (int d = lane; d < work.head_size; d += 32) {
      const float q = ToFloat(query[d]);
      bound += fmaxf(q * ToFloat(least[d]), q * ToFloat(least[work.head_size + d]));
    }
    best = fmaxf(best, SumOfWarp(bound));
  }
  return best;
}

template <class Element>
__device__ void SelectPages(const PageSelection& work) {
  KVFERRY_SHARED(Candidate, best_of_warps, [kSelectWarps]);
  const int kv_head = static_cast<int>(blockIdx.x);
  const int sequence = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int count = work.counts[sequence];
  const std::int32_t* const table = work.tables + sequence * work.table_step;
  const std::int64_t row = static_cast<std::int64_t>(sequence) * work.kv_heads + kv_head;
  float* const scores = work.scores + row * work.table_step;
  std::int32_t* const selected = work.selected + row * work.top;

  for (int i = warp; i < count; i += kSelectWarps) {
    const float score =
        table[i] < 0 ? -INFINITY : ScoreOfPage<Element>(work, sequence, kv_head, table[i]);
    if (lane == 0) {
      scores[i] = score;
    }
  }
  __syncthreads();
  for (int rank = 0; rank < work.top; ++rank) {
    Candidate best{-INFINITY, -1};
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kSelectWarps * 32) {
      if (scores[i] != -INFINITY) {
        best.Consider(scores[i], i);
      }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      const float score = __shfl_xor_sync(KVFERRY_FULL_WARP, best.score, lanes);
      const int place = __shfl_xor_sync(KVFERRY_FULL_WARP, best.place, lanes);
      best.Consider(score, place);
    }
    if (lane == 0) {
      best_of_warps[warp] = best;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < kSelectWarps; ++w) {
        best.Consider(best_of_warps[w].score, best_of_warps[w].place);
      }
      selected[rank] = best.place;
      if (best.place >= 0) {
        scores[best.place] = -INFINITY;  // Out of the next round.
      }
    }
    __syncthreads();
  }
}

}  // namespace kvferry::gpu

#define KVFERRY_SELECTION_KERNELS(suffix, Element)                                     \
  __global__ void kvferry_summarize_pages_##suffix(kvferry::gpu::PageSummaries work) { \
    kvferry::gpu::SummarizePages<Element>(work);                                       \
  }                                                                                    \
  __global__ void __launch_bounds__(kvferry::gpu::kSelectWarps * 32)                   \
      kvferry_select_pages_##suffix(kvferry::gpu::PageSelection work) {                \
    kvferry::gpu::SelectPages<Element>(work);                                          \
  }

extern "C" {
KVFERRY_SELECTION_KERNELS(bf16, __nv_bfloat16)
KVFERRY_SELECTION_KERNELS(f16, __half)
}  // extern "C"
