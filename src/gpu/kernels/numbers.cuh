// The number formats that kernels load and store; arithmetic is in float only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "gpu/kernels/language.h"

namespace kvferry::gpu {

__device__ inline float ToFloat(__half value) {
  return __half2float(value);
}
__device__ inline float ToFloat(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <class Element>
__device__ inline Element FromFloat(float value);
template <>
__device__ inline __half FromFloat<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

__device__ inline float E4m3ToFloat(unsigned char code) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}
// Saturates at 448.
__device__ inline unsigned char FloatToE4m3(float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}

__device__ inline float MaxOfWarp(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(KVFERRY_FULL_WARP, value, lanes));
  }
  return value;
}
__device__ inline float SumOfWarp(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(KVFERRY_FULL_WARP, value, lanes);
  }
  return value;
}

}  // namespace kvferry::gpu
