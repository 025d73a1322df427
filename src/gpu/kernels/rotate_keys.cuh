// Kernels: turn keys by a shift of their position.
#pragma once

#include "gpu/kernels/numbers.cuh"
#include "gpu/kernels/rotate_keys.h"

namespace kvferry::gpu {

// blockIdx.y counts the planes with keys, blockIdx.z the blocks.
template <class Element>
__device__ void RotateKeys(const KeyRotation& rotation) {
  const int pairs = rotation.rotary_size / 2;
  const std::int64_t plane = static_cast<std::int64_t>(blockIdx.z) * rotation.plane_count +
                             rotation.plane_first +
                             static_cast<std::int64_t>(blockIdx.y) * rotation.plane_step;
  Element* const rows = static_cast<Element*>(rotation.blocks) +
                        plane * rotation.rows * rotation.row_size + rotation.rotary_first;
  const float* const turns = rotation.turns + static_cast<std::int64_t>(blockIdx.z) * pairs * 2;
  const std::int64_t count = static_cast<std::int64_t>(rotation.rows) * pairs;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const std::int64_t pair = i % pairs;
    Element* const row = rows + i / pairs * rotation.row_size;
    Element* const first = row + (rotation.is_interleaved ? 2 * pair : pair);
    Element* const second = rotation.is_interleaved ? first + 1 : first + pairs;
    const float cosine = turns[2 * pair];
    const float sine = turns[2 * pair + 1];
    const float x = ToFloat(*first);
    const float y = ToFloat(*second);
    *first = FromFloat<Element>(x * cosine - y * sine);
    *second = FromFloat<Element>(x * sine + y * cosine);
  }
}

}  // namespace kvferry::gpu

extern "C" {

__global__ void kvferry_rotate_keys_bf16(kvferry::gpu::KeyRotation rotation) {
  kvferry::gpu::RotateKeys<__nv_bfloat16>(rotation);
}

__global__ void kvferry_rotate_keys_f16(kvferry::gpu::KeyRotation rotation) {
  kvferry::gpu::RotateKeys<__half>(rotation);
}

}  // extern "C"
