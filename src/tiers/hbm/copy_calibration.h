// Copy calibration: measures on the device which way of copying paged blocks is the quickest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/clock.h"
#include "gpu/copy_planner.h"
#include "gpu/device.h"

namespace kvferry::tiers {

// How long one way took for a block in runs of one size; the fastest of its repetitions.
struct CopySample {
  gpu::CopyMethod method = gpu::CopyMethod::kSingle;
  std::uint64_t run_bytes = 0;
  Duration took{};
};

struct CalibrationOptions {
  Duration budget = std::chrono::milliseconds(200);
  std::uint64_t block_bytes = std::uint64_t{1} << 20;
  const void* kernels = nullptr;  // As HbmMovesOptions has it; null: kernels are not measured.
};

// Onboards a block of scratch memory again and again, each size of runs in each way in turn, until
// the budget is used up: what was not reached has no sample. Blocks the calling thread, which must
// have entered the device, for the budget and one round; never for an engine's open. Takes twice
// `block_bytes` of device memory and as much pinned memory while it runs.
Result<std::vector<CopySample>> MeasureCopies(gpu::Device& device,
                                              const ClockSource& clock,
                                              const CalibrationOptions& options);

// The least sizes from which on single copies beat batches, and batches beat kernels, by these
// samples; what they do not say stays as in `defaults`.
gpu::CopyThresholds ThresholdsFrom(std::span<const CopySample> samples,
                                   const gpu::CopyThresholds& defaults);

}  // namespace kvferry::tiers
