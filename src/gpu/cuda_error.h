// What a cudaError_t means for us: its status code, and whether the device is lost with it.
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>

#include "kvferry/status.h"

#include "gpu/cuda_api.h"

namespace kvferry::gpu {

// kResourceExhausted for memory, kUnavailable without a device or a driver that serves it,
// kInvalidArgument where a stream under capture does not allow the call, else kDeviceError.
StatusCode CodeOf(cudaError_t error) noexcept;

// Whether the context is lost: every later call of the process gives the same error. Running out of
// memory is not.
bool IsSticky(cudaError_t error) noexcept;

// "cudaEventQuery: cudaErrorIllegalAddress (an illegal memory access ...)". A sticky error says
// that an earlier operation may have caused it, since errors of kernels and copies come with
// whichever call is made next. `error` must not be cudaSuccess.
Status ErrorOf(const CudaApi& api, cudaError_t error, std::string_view call);

}  // namespace kvferry::gpu
