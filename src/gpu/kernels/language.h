// The one place where a kernel's two compilations differ: nvcc for the GPU, g++ for the simulator.
#pragma once

#ifdef __CUDACC__
#define KVFERRY_SHARED(type, name, extents) __shared__ type name extents
#define KVFERRY_DYNAMIC_SHARED(type, name)                              \
  extern __shared__ __align__(16) unsigned char kvferry_shared_bytes[]; \
  type* const name = reinterpret_cast<type*>(kvferry_shared_bytes)
#else
#include "gpu/kernels/host_language.h"
#endif

#define KVFERRY_FULL_WARP 0xffffffffU
