// CUDA's device language for a host compiler: what a kernel's source sees when built for a CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>  // Vector types; empty __global__ and the like under a host compiler.

#include "gpu/kernels/host_threads.h"

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): CUDA's names.
#define threadIdx (::kvferry::gpu::on_host::ThisThread().thread)
#define blockIdx (::kvferry::gpu::on_host::ThisThread().block)
#define blockDim (::kvferry::gpu::on_host::ThisThread().block_extent)
#define gridDim (::kvferry::gpu::on_host::ThisThread().grid_extent)
#define __launch_bounds__(...)

// On the heap, anew for each block, so that sanitizers see its bounds and its uninitialised bytes.
#define KVFERRY_SHARED(type, name, extents)       \
  using name##_type = type extents;               \
  static constexpr char name##_key = 0;           \
  name##_type& name = *static_cast<name##_type*>( \
      ::kvferry::gpu::on_host::SharedVariable(&name##_key, sizeof(name##_type)))
#define KVFERRY_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::kvferry::gpu::on_host::DynamicShared())

#define KVFERRY_HERE (::kvferry::gpu::on_host::SourcePlace{__FILE__, __LINE__})
#define __syncthreads() ::kvferry::gpu::on_host::SyncThreads(KVFERRY_HERE)
#define __syncwarp() ::kvferry::gpu::on_host::SyncWarp(0xffffffffU, KVFERRY_HERE)
#define __threadfence() ::kvferry::gpu::on_host::Fence()
#define __shfl_xor_sync(mask, value, lanes) \
  ::kvferry::gpu::on_host::ShuffleXor((mask), (value), (lanes), KVFERRY_HERE)
#define __shfl_sync(mask, value, lane)                                                          \
  ::kvferry::gpu::on_host::ShuffleFrom((mask), (value), static_cast<std::uint32_t>(lane) & 31U, \
                                       KVFERRY_HERE)
#define __ballot_sync(mask, vote) ::kvferry::gpu::on_host::Ballot((mask), (vote), KVFERRY_HERE)

// Relaxed, as on the device.
template <class T>
T atomicAdd(T* word, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  const kvferry::gpu::on_host::AtomicNote note(word);
  return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

template <class T>
T __ldg(const T* address) {
  return *address;
}

// Saturates, and gives 0 for NaN, as on the device.
inline int __float2int_rn(float value) {
  if (std::isnan(value)) {
    return 0;
  }
  if (value >= 2147483648.0F) {
    return 0x7fffffff;
  }
  return value < -2147483648.0F ? -0x7fffffff - 1 : static_cast<int>(std::nearbyint(value));
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
