// The choice between io_uring and threads.
#include "tiers/nvme/open_io_ring.h"

#include <utility>

#include "tiers/nvme/thread_ring.h"
#include "tiers/nvme/uring_kernel.h"
#include "tiers/nvme/uring_ring.h"

namespace kvferry::tiers {
namespace {

Status CheckRange(std::uint32_t value, std::uint32_t value_max, const std::string& name) {
  if (value >= 1 && value <= value_max) {
    return Status::Ok();
  }
  return Status::Error(
      StatusCode::kInvalidArgument,
      name + " is " + std::to_string(value) + ", not from 1 to " + std::to_string(value_max));
}

}  // namespace

Result<OpenedIoRing> OpenIoRing(std::span<const int> files, const IoRingOptions& options) {
  KVFERRY_RETURN_IF_ERROR(
      CheckRange(options.in_flight_max, IoRingOptions::kInFlightMax, "in_flight_max"));
  KVFERRY_RETURN_IF_ERROR(
      CheckRange(options.thread_count, IoRingOptions::kThreadsMax, "thread_count"));
  OpenedIoRing opened;
  if (options.backend != IoBackend::kThreads) {
    Result<std::unique_ptr<KernelRing>> kernel = OpenUringKernel(files, options.in_flight_max);
    if (kernel.ok()) {
      opened.backend = IoBackend::kUring;
      opened.ring = std::make_unique<UringRing>(
          std::move(*kernel), static_cast<std::uint32_t>(files.size()), options.in_flight_max);
      return opened;
    }
    if (options.backend == IoBackend::kUring) {
      return kernel.error();
    }
    opened.warning =
        "reads and writes go through threads, which costs more: " + kernel.error().ToString();
  }
  KVFERRY_ASSIGN_OR_RETURN(opened.ring,
                           ThreadRing::Open(files, options.in_flight_max, options.thread_count));
  opened.backend = IoBackend::kThreads;
  return opened;
}

}  // namespace kvferry::tiers
