// The GPU of a build without CUDA's headers: none.
#include "engine/device_opening.h"

namespace kvferry::engine {

Result<std::unique_ptr<DeviceArrows>> OpenDevice(const EngineOptions& /*options*/,
                                                 const DeviceSeams& /*seams*/,
                                                 std::span<std::byte> /*host_memory*/) {
  return Status::Error(StatusCode::kUnavailable,
                       "this build has no GPU parts: CUDA's headers of version 13 were not found "
                       "when it was configured");
}

}  // namespace kvferry::engine
