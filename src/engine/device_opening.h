// OpenDevice: the GPU of an engine's options, or why it is not used.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kvferry/options.h"
#include "kvferry/status.h"

#include "engine/device_arrows.h"

namespace kvferry::gpu {
struct CudaApi;
}  // namespace kvferry::gpu

namespace kvferry::engine {

// What stands in for a GPU in tests. By default a libcudart is looked for, and the kernels are
// those that nvcc made.
struct DeviceSeams {
  const gpu::CudaApi* cuda = nullptr;
  const void* kernels = nullptr;  // Of the runtime that `cuda` is of; null: none.
};

// On the mover thread, which has entered the device from then on. What HbmArrows::Open says;
// kUnavailable in a build without CUDA's headers.
Result<std::unique_ptr<DeviceArrows>> OpenDevice(const EngineOptions& options,
                                                 const DeviceSeams& seams,
                                                 std::span<std::byte> host_memory);

}  // namespace kvferry::engine
