// Kernels: split decode attention over block tables, and the merge of its partial results.
#pragma once

#include "gpu/kernels/numbers.cuh"
#include "gpu/kernels/paged_decode.h"

namespace kvferry::gpu {

inline constexpr int kDecodeWarps = 4;

// Where a row of keys or values is, and what its codes are to be multiplied with.
struct PagedRow {
  std::int64_t offset;
  const float* channel_scales;
  float scale;
};

__device__ inline PagedRow RowOf(const PagedDecode& decode,
                                 const PagedSide& side,
                                 std::int64_t page,
                                 int token,
                                 int head,
                                 int row_size) {
  PagedRow row{page * side.page_step + token * side.token_step + head * side.head_step, nullptr,
               1.0F};
  if (side.scale_kind == ScaleKind::kPerHead) {
    row.scale = side.scales[head];
  } else if (side.scale_kind == ScaleKind::kPerRow) {
    row.scale = side.scales[(page * decode.page_tokens + token) * decode.kv_heads + head];
  } else if (side.scale_kind == ScaleKind::kPerChannel) {
    row.channel_scales = side.scales + (page * decode.kv_heads + head) * row_size;
  }
  return row;
}

template <class Element>
__device__ inline float LoadElement(const PagedSide& side,
                                    const PagedRow& row,
                                    int element,
                                    StoredFormat format) {
  const std::int64_t place = row.offset + element;
  if (format == StoredFormat::kNative) {
    return ToFloat(static_cast<const Element*>(side.pages)[place]);
  }
  const float code = format == StoredFormat::kE4m3
                         ? E4m3ToFloat(static_cast<const unsigned char*>(side.pages)[place])
                         : static_cast<float>(static_cast<const signed char*>(side.pages)[place]);
  return code * (row.channel_scales == nullptr ? row.scale : row.channel_scales[element]);
}

// What a warp, or a block, has seen of its tokens.
template <int kSize>
struct Attention {
  float largest = -INFINITY;
  float sum = 0.0F;
  float output[kSize] = {};

  __device__ void Add(float logit, const float (&value)[kSize]) {
    const float raised = fmaxf(largest, logit);
    const float keep = exp2f(largest - raised);
    const float weight = exp2f(logit - raised);
    sum = fmaf(sum, keep, weight);
    for (int e = 0; e < kSize; ++e) {
      output[e] = fmaf(output[e], keep, weight * value[e]);
    }
    largest = raised;
  }
};

// Grid: head, sequence, split. A lane has every 32nd element, a warp every fourth token.
template <class Element, int kKeySize, int kValueSize>
__device__ void Decode(const PagedDecode& decode) {
  constexpr int kKeyLane = kKeySize / 32;
  constexpr int kValueLane = kValueSize / 32;
  KVFERRY_SHARED(float, outputs, [kDecodeWarps][kValueSize]);
  KVFERRY_SHARED(float, stats, [kDecodeWarps][2]);
  const int head = static_cast<int>(blockIdx.x);
  const int sequence = static_cast<int>(blockIdx.y);
  const int splits = static_cast<int>(gridDim.z);
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int kv_head = head / (decode.heads / decode.kv_heads);
  const std::int64_t row = static_cast<std::int64_t>(sequence) * decode.heads + head;

  float query[kKeyLane];
  const Element* const queries = static_cast<const Element*>(decode.queries) + row * kKeySize;
  for (int e = 0; e < kKeyLane; ++e) {
    query[e] = ToFloat(queries[e * 32 + lane]) * decode.scale_log2;
  }
  const int length = decode.lengths[sequence];
  const int visible = VisibleTokens(length, decode.window, decode.sink_tokens);
  const int share = (visible + splits - 1) / splits;
  const int begin = static_cast<int>(blockIdx.z) * share;
  const int end = begin + share < visible ? begin + share : visible;
  Attention<kValueLane> seen;
  for (int i = begin + warp; i < end; i += kDecodeWarps) {
    const int token = VisibleToken(i, length, visible, decode.sink_tokens);
    const std::int64_t page =
        decode.tables[sequence * decode.table_step + token / decode.page_tokens];
    if (page < 0) {
      continue;
    }
    const int slot = token % decode.page_tokens;
    const PagedRow key = RowOf(decode, decode.keys, page, slot, kv_head, kKeySize);
    float logit = 0.0F;
    for (int e = 0; e < kKeyLane; ++e) {
      logit = fmaf(query[e], LoadElement<Element>(decode.keys, key, e * 32 + lane, decode.format),
                   logit);
    }
    logit = SumOfWarp(logit);
    const PagedRow value = RowOf(decode, decode.values, page, slot, kv_head, kValueSize);
    float values[kValueLane];
    for (int e = 0; e < kValueLane; ++e) {
      values[e] = LoadElement<Element>(decode.values, value, e * 32 + lane, decode.format);
    }
    seen.Add(logit, values);
  }

  for (int e = 0; e < kValueLane; ++e) {
    outputs[warp][e * 32 + lane] = seen.output[e];
  }
  if (lane == 0) {
    stats[warp][0] = seen.largest;
    stats[warp][1] = seen.sum;
  }
  __syncthreads();
  float largest = -INFINITY;
  for (int w = 0; w < kDecodeWarps; ++w) {
    largest = fmaxf(largest, stats[w][0]);
  }
  float weights[kDecodeWarps];
  float sum = 0.0F;
  for (int w = 0; w < kDecodeWarps; ++w) {
    // A warp without a token has no maximum to compare.
    weights[w] = stats[w][0] == -INFINITY ? 0.0F : exp2f(stats[w][0] - largest);
    sum = fmaf(stats[w][1], weights[w], sum);
  }
  const std::int64_t partial = row * splits + blockIdx.z;
  for (int d = static_cast<int>(threadIdx.x); d < kValueSize; d += kDecodeWarps * 32) {
    float output = 0.0F;
    for (int w = 0; w < kDecodeWarps; ++w) {
      output = fmaf(outputs[w][d], weights[w], output);
    }
    decode.partial_outputs[partial * kValueSize + d] = output;
  }
  if (threadIdx.x == 0) {
    decode.partial_stats[partial * 2] = largest;
    decode.partial_stats[partial * 2 + 1] = sum;
  }
}

// A block a row of outputs.
template <class Element>
__device__ void MergePartials(const PartialMerge& merge) {
  const std::int64_t row = blockIdx.x;
  const float* const stats = merge.partial_stats + row * merge.splits * 2;
  const float* const partials = merge.partial_outputs + row * merge.splits * merge.value_size;
  float largest = -INFINITY;
  float sink = -INFINITY;
  if (merge.sink_logits != nullptr) {
    constexpr float kLog2E = 1.44269504F;
    sink = merge.sink_logits[row % merge.heads] * kLog2E;
    largest = sink;
  }
  for (int split = 0; split < merge.splits; ++split) {
    largest = fmaxf(largest, stats[split * 2]);
  }
  float sum = sink == -INFINITY ? 0.0F : exp2f(sink - largest);
  for (int split = 0; split < merge.splits; ++split) {
    if (stats[split * 2] != -INFINITY) {
      sum = fmaf(stats[split * 2 + 1], exp2f(stats[split * 2] - largest), sum);
    }
  }
  Element* const outputs = static_cast<Element*>(merge.outputs) + row * merge.value_size;
  for (int d = static_cast<int>(threadIdx.x); d < merge.value_size;
       d += static_cast<int>(blockDim.x)) {
    float output = 0.0F;
    for (int split = 0; split < merge.splits; ++split) {
      if (stats[split * 2] != -INFINITY) {
        output = fmaf(partials[static_cast<std::int64_t>(split) * merge.value_size + d],
                      exp2f(stats[split * 2] - largest), output);
      }
    }
    outputs[d] = FromFloat<Element>(sum > 0.0F ? output / sum : 0.0F);
  }
}

}  // namespace kvferry::gpu

// At least one block a multiprocessor: without that, ptxas prefers spilling to fewer blocks.
#define KVFERRY_DECODE_KERNEL(size, suffix, Element, keys, values)         \
  __global__ void __launch_bounds__(kvferry::gpu::kDecodeWarps * 32, 1)    \
      kvferry_decode_##size##_##suffix(kvferry::gpu::PagedDecode decode) { \
    kvferry::gpu::Decode<Element, keys, values>(decode);                   \
  }
#define KVFERRY_DECODE_KERNELS(suffix, Element)                                       \
  KVFERRY_DECODE_KERNEL(64, suffix, Element, 64, 64)                                  \
  KVFERRY_DECODE_KERNEL(128, suffix, Element, 128, 128)                               \
  KVFERRY_DECODE_KERNEL(256, suffix, Element, 256, 256)                               \
  KVFERRY_DECODE_KERNEL(mla, suffix, Element, 576, 512)                               \
  __global__ void kvferry_merge_partials_##suffix(kvferry::gpu::PartialMerge merge) { \
    kvferry::gpu::MergePartials<Element>(merge);                                      \
  }

extern "C" {
KVFERRY_DECODE_KERNELS(bf16, __nv_bfloat16)
KVFERRY_DECODE_KERNELS(f16, __half)
}  // extern "C"
