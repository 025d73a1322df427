// KVFERRY_BOTH_SIDES: marks a function for host and device; plain C++ that needs no CUDA header.
#pragma once

#ifdef __CUDACC__
#define KVFERRY_BOTH_SIDES __host__ __device__ inline
#else
#define KVFERRY_BOTH_SIDES inline
#endif
