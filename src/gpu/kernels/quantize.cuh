// Kernels: FP8, INT8 and INT4 codes of 16-bit values, and back.
#pragma once

#include "gpu/kernels/numbers.cuh"
#include "gpu/kernels/quantize.h"

namespace kvferry::gpu {

__device__ inline float LargestCode(CodeFormat format) {
  return format == CodeFormat::kE4m3 ? 448.0F : format == CodeFormat::kInt8 ? 127.0F : 7.0F;
}

// Two neighbours at a time, since INT4 shares a byte between them.
__device__ inline void StorePair(
    unsigned char* codes, std::int64_t element, float first, float second, CodeFormat format) {
  if (format == CodeFormat::kE4m3) {
    codes[element] = FloatToE4m3(first);
    codes[element + 1] = FloatToE4m3(second);
  } else if (format == CodeFormat::kInt8) {
    codes[element] = static_cast<unsigned char>(__float2int_rn(first));
    codes[element + 1] = static_cast<unsigned char>(__float2int_rn(second));
  } else {
    const int low = __float2int_rn(first) & 15;
    const int high = __float2int_rn(second) & 15;
    codes[element / 2] = static_cast<unsigned char>(low | (high << 4));
  }
}

__device__ inline float SignedNibble(int nibble) {
  return static_cast<float>((nibble ^ 8) - 8);
}

__device__ inline float2 LoadPair(const unsigned char* codes,
                                  std::int64_t element,
                                  CodeFormat format) {
  if (format == CodeFormat::kE4m3) {
    return make_float2(E4m3ToFloat(codes[element]), E4m3ToFloat(codes[element + 1]));
  }
  if (format == CodeFormat::kInt8) {
    return make_float2(static_cast<float>(static_cast<signed char>(codes[element])),
                       static_cast<float>(static_cast<signed char>(codes[element + 1])));
  }
  const int both = codes[element / 2];
  return make_float2(SignedNibble(both & 15), SignedNibble(both >> 4));
}

// A warp a group.
template <class Element>
__device__ void QuantizeRows(const RowCodes& rows) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  const Element* const values = static_cast<const Element*>(rows.values);
  for (; group < rows.groups; group += warps) {
    const std::int64_t start = group * rows.group_size;
    float largest = 0.0F;
    for (int i = lane; i < rows.group_size; i += 32) {
      largest = fmaxf(largest, fabsf(ToFloat(values[start + i])));
    }
    largest = MaxOfWarp(largest);
    const float inverse = largest > 0.0F ? LargestCode(rows.format) / largest : 0.0F;
    if (lane == 0) {
      rows.scales[group] = largest / LargestCode(rows.format);
    }
    for (int i = 2 * lane; i < rows.group_size; i += 64) {
      StorePair(rows.codes, start + i, ToFloat(values[start + i]) * inverse,
                ToFloat(values[start + i + 1]) * inverse, rows.format);
    }
  }
}

template <class Element>
__device__ void DequantizeRows(const RowCodes& rows) {
  const std::int64_t pairs = rows.groups * rows.group_size / 2;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  Element* const values = static_cast<Element*>(rows.values);
  for (std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       pair < pairs; pair += step) {
    const float scale = rows.scales[2 * pair / rows.group_size];
    const float2 both = LoadPair(rows.codes, 2 * pair, rows.format);
    values[2 * pair] = FromFloat<Element>(both.x * scale);
    values[2 * pair + 1] = FromFloat<Element>(both.y * scale);
  }
}

// A thread a channel: neighbouring threads read neighbouring elements of each token.
template <class Element, bool kIsBack>
__device__ void CodeChannels(const ChannelCodes& codes) {
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (channel >= codes.channels) {
    return;
  }
  const std::int64_t plane = blockIdx.y;
  const std::int64_t first = plane * codes.tokens * codes.channels + channel;
  float* const scale = codes.scales + (plane * codes.channels + channel);
  Element* const values = static_cast<Element*>(codes.values);
  if (kIsBack) {
    for (int token = 0; token < codes.tokens; ++token) {
      const std::int64_t element = first + static_cast<std::int64_t>(token) * codes.channels;
      values[element] = FromFloat<Element>(static_cast<float>(codes.codes[element]) * *scale);
    }
    return;
  }
  float largest = 0.0F;
  for (int token = 0; token < codes.tokens; ++token) {
    const std::int64_t element = first + static_cast<std::int64_t>(token) * codes.channels;
    largest = fmaxf(largest, fabsf(ToFloat(values[element])));
  }
  const float inverse = largest > 0.0F ? 127.0F / largest : 0.0F;
  *scale = largest / 127.0F;
  for (int token = 0; token < codes.tokens; ++token) {
    const std::int64_t element = first + static_cast<std::int64_t>(token) * codes.channels;
    codes.codes[element] =
        static_cast<signed char>(__float2int_rn(ToFloat(values[element]) * inverse));
  }
}

}  // namespace kvferry::gpu

#define KVFERRY_QUANTIZE_KERNELS(suffix, Element)                                          \
  __global__ void kvferry_quantize_rows_##suffix(kvferry::gpu::RowCodes rows) {            \
    kvferry::gpu::QuantizeRows<Element>(rows);                                             \
  }                                                                                        \
  __global__ void kvferry_dequantize_rows_##suffix(kvferry::gpu::RowCodes rows) {          \
    kvferry::gpu::DequantizeRows<Element>(rows);                                           \
  }                                                                                        \
  __global__ void kvferry_quantize_channels_##suffix(kvferry::gpu::ChannelCodes codes) {   \
    kvferry::gpu::CodeChannels<Element, false>(codes);                                     \
  }                                                                                        \
  __global__ void kvferry_dequantize_channels_##suffix(kvferry::gpu::ChannelCodes codes) { \
    kvferry::gpu::CodeChannels<Element, true>(codes);                                      \
  }

extern "C" {
KVFERRY_QUANTIZE_KERNELS(bf16, __nv_bfloat16)
KVFERRY_QUANTIZE_KERNELS(f16, __half)
}  // extern "C"
