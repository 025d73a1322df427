// The GPU of a build with CUDA's headers.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "engine/device_opening.h"
#include "engine/hbm_arrows.h"
#include "engine/request_table.h"
#include "gpu/kernels/images.h"

namespace kvferry::engine {
namespace {

// Buffers by the pool's size: what a small engine does not need.
constexpr std::uint64_t kPartBytesMin = kMiB;
constexpr std::uint64_t kPartBytesMax = 8 * kMiB;
constexpr std::uint64_t kPartsOfPool = 16;

}  // namespace

Result<std::unique_ptr<DeviceArrows>> OpenDevice(const EngineOptions& options,
                                                 const DeviceSeams& seams,
                                                 std::span<std::byte> host_memory) {
  HbmArrows::Options arrows;
  arrows.cuda = seams.cuda;
  arrows.kernels = seams.cuda == nullptr ? gpu::DeviceKernels() : seams.kernels;
  arrows.runtime_path = options.hbm.runtime_path;
  arrows.device = static_cast<int>(options.hbm.device);
  arrows.requests_max = options.requests_max;
  arrows.operations_max = RequestTable::OperationsMax(options.requests_max);
  arrows.part_bytes =
      std::clamp<std::uint64_t>(host_memory.size() / kPartsOfPool, kPartBytesMin, kPartBytesMax);
  KVFERRY_ASSIGN_OR_RETURN(std::unique_ptr<DeviceArrows> opened,
                           HbmArrows::Open(arrows, host_memory));
  return opened;
}

}  // namespace kvferry::engine
