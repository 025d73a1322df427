// Parts as runs, batches or kernels.
#include "tiers/hbm/hbm_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "gpu/kernel_shapes.h"

namespace kvferry::tiers {
namespace {

constexpr std::size_t kRunsMax = 4096;
constexpr std::size_t kNotesAlignmentBytes = 256;
constexpr std::size_t kPagesAt = HbmLane::kPlanesMax * sizeof(unsigned char*);
constexpr std::size_t kPlacesAt = kPagesAt + HbmLane::kPagesMax * sizeof(std::int32_t);

gpu::CopyDirection DirectionOf(HbmArrow arrow) {
  return arrow == HbmArrow::kOffload ? gpu::CopyDirection::kDeviceToHost
                                     : gpu::CopyDirection::kHostToDevice;
}

}  // namespace

Result<HbmLane> HbmLane::Create(gpu::Device& device,
                                gpu::StreamPriority priority,
                                const HbmLaneOptions& options) {
  KVFERRY_ASSIGN_OR_RETURN(gpu::Stream stream, gpu::Stream::Create(device, priority));
  HbmLane lane(options, std::move(stream));
  if (options.gather.has_value() && options.scatter.has_value()) {
    KVFERRY_ASSIGN_OR_RETURN(lane.staging_, gpu::DeviceBuffer::Create(device, options.part_bytes));
  }
  return lane;
}

HbmLane::HbmLane(const HbmLaneOptions& options, gpu::Stream stream)
    : options_(options), stream_(std::move(stream)), batch_(kRunsMax) {
  runs_.reserve(kRunsMax);
}

std::size_t HbmLane::NotesBytes(std::uint32_t blocks_a_part) {
  return AlignUp(kPlacesAt + blocks_a_part * sizeof(gpu::BlockPlace), kNotesAlignmentBytes);
}

Status HbmLane::Queue(const HbmPart& part, const HbmNotes& notes) {
  KVFERRY_CHECK(!part.pairs.empty() && part.pairs.size() <= options_.blocks_a_part);
  KVFERRY_CHECK(runs_.empty());
  is_kernel_part_ = false;
  if (part.tensors == nullptr) {
    return QueueContiguous(part, false);
  }
  // A kernel has both of its ends on the device, whatever the direction: over the bus go whole
  // blocks.
  const std::uint64_t bytes = part.bytes_a_block * part.pairs.size();
  const gpu::CopyMethod method =
      gpu::ChooseCopyMethod(options_.thresholds, gpu::CopyDirection::kDeviceToDevice,
                            std::max<std::uint64_t>(bytes / part.tensors->run_bytes(), 1), bytes);
  if (method == gpu::CopyMethod::kKernel && CanUseKernel(part)) {
    is_kernel_part_ = true;
    return QueueByKernel(part, notes);
  }
  return QueuePaged(part);
}

bool HbmLane::CanUseKernel(const HbmPart& part) const {
  std::size_t pages = 0;
  for (const HbmPair& pair : part.pairs) {
    pages += pair.paged.pages.size();
  }
  return staging_.has_value() && part.tensors->fits_kernels() && pages <= kPagesMax &&
         part.tensors->PlanesOf(part.layers).size() <= kPlanesMax &&
         part.bytes_a_block * part.pairs.size() <= staging_->size_bytes();
}

Status HbmLane::QueueByKernel(const HbmPart& part, const HbmNotes& notes) {
  method_bytes_[static_cast<std::size_t>(gpu::CopyMethod::kKernel)] +=
      part.bytes_a_block * part.pairs.size();
  if (part.arrow == HbmArrow::kOffload) {
    KVFERRY_RETURN_IF_ERROR(LaunchKernel(part, notes));
    return QueueContiguous(part, true);
  }
  KVFERRY_RETURN_IF_ERROR(QueueContiguous(part, true));
  return LaunchKernel(part, notes);
}

Status HbmLane::LaunchKernel(const HbmPart& part, const HbmNotes& notes) {
  const auto planes = part.tensors->PlanesOf(part.layers);
  std::memcpy(notes.pinned, planes.data(), planes.size_bytes());
  auto* const pages = reinterpret_cast<std::int32_t*>(notes.pinned + kPagesAt);
  auto* const places = reinterpret_cast<gpu::BlockPlace*>(notes.pinned + kPlacesAt);
  std::size_t page_count = 0;
  for (std::size_t i = 0; i < part.pairs.size(); ++i) {
    const DeviceBlock& block = part.pairs[i].paged;
    places[i] = {static_cast<std::int32_t>(page_count),
                 static_cast<std::int32_t>(block.first_token),
                 static_cast<std::int32_t>(part.tensors->block_tokens())};
    std::copy(block.pages.begin(), block.pages.end(), pages + page_count);
    page_count += block.pages.size();
  }
  KVFERRY_RETURN_IF_ERROR(stream_.Copy(notes.device, notes.pinned,
                                       kPlacesAt + part.pairs.size() * sizeof(gpu::BlockPlace)));
  gpu::BlockCopy copy;
  copy.layout = part.tensors->kernel_layout();
  copy.planes = reinterpret_cast<unsigned char* const*>(notes.device);
  copy.pages = reinterpret_cast<const std::int32_t*>(notes.device + kPagesAt);
  copy.places = reinterpret_cast<const gpu::BlockPlace*>(notes.device + kPlacesAt);
  copy.blocks = reinterpret_cast<unsigned char*>(staging_->data());
  copy.plane_count = static_cast<std::int32_t>(planes.size());
  copy.block_tokens = static_cast<std::int32_t>(part.tensors->block_tokens());
  KVFERRY_RETURN_IF_ERROR(gpu::CheckBlockCopy(copy));
  const gpu::LaunchShape shape = gpu::ShapeOf(copy, static_cast<std::uint32_t>(part.pairs.size()));
  const bool is_gather = part.arrow == HbmArrow::kOffload;
  return (is_gather ? options_.gather : options_.scatter)->Launch(stream_, shape, copy);
}

Status HbmLane::QueueContiguous(const HbmPart& part, bool is_staged) {
  for (std::size_t i = 0; i < part.pairs.size(); ++i) {
    std::byte* const device =
        is_staged ? staging_->data() + i * part.bytes_a_block : part.pairs[i].device;
    KVFERRY_RETURN_IF_ERROR(AddRun(part.arrow, device, part.pairs[i].host, part.bytes_a_block));
  }
  return Flush(part.arrow);
}

Status HbmLane::QueuePaged(const HbmPart& part) {
  Status status;
  for (const HbmPair& pair : part.pairs) {
    part.tensors->ForEachRun(pair.paged, part.layers, pair.host,
                             [&](std::byte* device, std::byte* host, std::size_t bytes) {
                               if (status.ok()) {
                                 status = AddRun(part.arrow, device, host, bytes);
                               }
                             });
  }
  if (!status.ok()) {
    runs_.clear();
    return status;
  }
  return Flush(part.arrow);
}

Status HbmLane::AddRun(HbmArrow arrow, std::byte* device, std::byte* host, std::size_t bytes) {
  if (runs_.size() == kRunsMax) {
    KVFERRY_RETURN_IF_ERROR(Flush(arrow));
  }
  if (arrow == HbmArrow::kOffload) {
    runs_.push_back({host, device, bytes});
  } else {
    runs_.push_back({device, host, bytes});
  }
  return Status::Ok();
}

Status HbmLane::Flush(HbmArrow arrow) {
  const std::size_t count = gpu::MergeRuns(runs_);
  const std::span<const gpu::CopyRun> merged(runs_.data(), count);
  std::uint64_t bytes = 0;
  for (const gpu::CopyRun& run : merged) {
    bytes += run.size_bytes;
  }
  gpu::CopyMethod method =
      gpu::ChooseCopyMethod(options_.thresholds, DirectionOf(arrow), count, bytes);
  if (method == gpu::CopyMethod::kKernel) {
    method = gpu::CopyMethod::kBatch;  // What is contiguous or not a kernel's case.
  }
  if (!is_kernel_part_) {
    method_bytes_[static_cast<std::size_t>(method)] += bytes;
  }
  Status status = gpu::SubmitRuns(stream_, batch_, merged, method);
  runs_.clear();
  return status;
}

}  // namespace kvferry::tiers
