// HbmLane: one stream that copies blocks between device and host memory, by whichever method suits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvferry/status.h"

#include "gpu/copy_batch.h"
#include "gpu/copy_planner.h"
#include "gpu/kernel_library.h"
#include "gpu/kernels/block_copy.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "tiers/hbm/paged_tensors.h"

namespace kvferry::tiers {

enum class HbmArrow : std::uint8_t { kOffload, kOnboard };
inline constexpr std::size_t kHbmArrowCount = 2;

// One block's share of a part: where the part's layers begin, on both sides.
struct HbmPair {
  std::byte* host = nullptr;    // Pinned.
  std::byte* device = nullptr;  // In a slot; null where the block lies in paged tensors.
  DeviceBlock paged;
};

// What is queued at once.
struct HbmPart {
  HbmArrow arrow = HbmArrow::kOffload;
  const PagedTensors* tensors = nullptr;  // Null: slots, contiguous on both sides.
  LayerRange layers;
  std::uint64_t bytes_a_block = 0;
  std::span<const HbmPair> pairs;
};

// Where the lists that a kernel reads are written, pinned and on the device. A part has them to
// itself until it is done.
struct HbmNotes {
  std::byte* pinned = nullptr;
  std::byte* device = nullptr;
};

struct HbmLaneOptions {
  std::uint64_t part_bytes = 0;     // The largest part; the lane has as much device memory.
  std::uint32_t blocks_a_part = 0;  // At most.
  gpu::CopyThresholds thresholds;
  // Gather and scatter; without them, paged blocks are copied run by run.
  std::optional<gpu::Kernel<gpu::BlockCopy>> gather;
  std::optional<gpu::Kernel<gpu::BlockCopy>> scatter;
};

// Bytes by gpu::CopyMethod. What a kernel copies is counted there only.
using HbmMethodBytes = std::array<std::uint64_t, 3>;

// Parts run one after the other. Small rows are gathered on the device into the lane's own memory
// and go over the bus as one run a block; onboard, the other way round.
//
// Move-only. Thread-confined; allocates nothing after Create.
class HbmLane {
 public:
  static constexpr std::uint32_t kPlanesMax = 1024;  // Of a part that a kernel copies,
  static constexpr std::uint32_t kPagesMax = 1024;   // and its pages.

  // kResourceExhausted if there is no memory for it.
  static Result<HbmLane> Create(gpu::Device& device,
                                gpu::StreamPriority priority,
                                const HbmLaneOptions& options);

  // The size of one part's notes.
  static std::size_t NotesBytes(std::uint32_t blocks_a_part);

  // Queues the copies of a part. An error may have queued some of them, so its memory is in use
  // until an event that is recorded behind them, all the same.
  Status Queue(const HbmPart& part, const HbmNotes& notes);

  gpu::Stream& stream() noexcept { return stream_; }
  const HbmMethodBytes& method_bytes() const noexcept { return method_bytes_; }

 private:
  HbmLane(const HbmLaneOptions& options, gpu::Stream stream);

  bool CanUseKernel(const HbmPart& part) const;
  Status QueueByKernel(const HbmPart& part, const HbmNotes& notes);
  Status LaunchKernel(const HbmPart& part, const HbmNotes& notes);
  Status QueueContiguous(const HbmPart& part, bool is_staged);
  Status QueuePaged(const HbmPart& part);
  Status AddRun(HbmArrow arrow, std::byte* device, std::byte* host, std::size_t bytes);
  Status Flush(HbmArrow arrow);

  HbmLaneOptions options_;
  gpu::Stream stream_;
  std::optional<gpu::DeviceBuffer> staging_;  // Where there are kernels.
  gpu::CopyBatch batch_;
  std::vector<gpu::CopyRun> runs_;
  bool is_kernel_part_ = false;
  HbmMethodBytes method_bytes_{};
};

}  // namespace kvferry::tiers
