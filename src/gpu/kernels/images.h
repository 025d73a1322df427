// The kernels as images to load: a fat binary for GPUs, host code for the simulated runtime.
#pragma once

#include "gpu/host_kernels.h"

namespace kvferry::gpu {

// For KernelLibrary::Load on a GPU; null in a build without nvcc.
const void* DeviceKernels() noexcept;

// For the simulated runtime, which must be linked with it.
const HostKernelImage& HostKernels() noexcept;

}  // namespace kvferry::gpu
