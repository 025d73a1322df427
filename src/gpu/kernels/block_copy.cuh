// Kernels: gather blocks from paged tensors and scatter them back, 128 bits at a time.
#pragma once

#include "gpu/kernels/block_copy.h"
#include "gpu/kernels/language.h"

namespace kvferry::gpu {

template <bool kIsGather>
__device__ void CopyBlock(const BlockCopy& copy) {
  const BlockPlace block = copy.places[blockIdx.y];
  const std::int64_t vectors = BlockVectors(copy);
  uint4* const contiguous = reinterpret_cast<uint4*>(copy.blocks) + blockIdx.y * vectors;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t vector = first; vector < vectors; vector += step) {
    const VectorPlace place = PlaceOf(copy, block, vector);
    const std::int32_t page = place.is_there ? copy.pages[place.page_place] : -1;
    if (page < 0) {
      if (kIsGather) {
        contiguous[vector] = make_uint4(0, 0, 0, 0);
      }
      continue;
    }
    uint4* const paged = reinterpret_cast<uint4*>(copy.planes[place.plane]) +
                         (page * copy.layout.page_step + place.offset);
    if (kIsGather) {
      contiguous[vector] = __ldg(paged);
    } else {
      *paged = contiguous[vector];
    }
  }
}

}  // namespace kvferry::gpu

extern "C" {

__global__ void __launch_bounds__(256) kvferry_gather_blocks(kvferry::gpu::BlockCopy copy) {
  kvferry::gpu::CopyBlock<true>(copy);
}

__global__ void __launch_bounds__(256) kvferry_scatter_blocks(kvferry::gpu::BlockCopy copy) {
  kvferry::gpu::CopyBlock<false>(copy);
}

}  // extern "C"
