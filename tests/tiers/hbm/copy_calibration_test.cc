// What is made of measured copies, and that measuring ends with its budget.
#include "tiers/hbm/copy_calibration.h"

#include <atomic>
#include <chrono>

#include <gtest/gtest.h>

#include "gpu/kernels/images.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

using gpu::CopyMethod;
using kvferry::testing::Must;
using kvferry::testing::SimGpu;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// A step further each time that it is asked.
class SteppingClock final : public ClockSource {
 public:
  explicit SteppingClock(Duration step) : step_(step) {}
  Instant Now() const noexcept override { return Instant(step_ * ++asked_); }

 private:
  Duration step_;
  mutable std::atomic<int> asked_ = 0;
};

CopySample Sample(CopyMethod method, std::uint64_t run_bytes, int us) {
  return {method, run_bytes, microseconds(us)};
}

TEST(HbmCopyCalibrationTest, ThresholdsAreWhereOneWayBeginsToWin) {
  const std::vector<CopySample> samples = {
      Sample(CopyMethod::kSingle, 4096, 90),    Sample(CopyMethod::kBatch, 4096, 40),
      Sample(CopyMethod::kKernel, 4096, 20),    Sample(CopyMethod::kSingle, 65536, 30),
      Sample(CopyMethod::kBatch, 65536, 22),    Sample(CopyMethod::kKernel, 65536, 22),
      Sample(CopyMethod::kSingle, 1048576, 20), Sample(CopyMethod::kBatch, 1048576, 21),
      Sample(CopyMethod::kKernel, 1048576, 25)};

  const gpu::CopyThresholds thresholds = ThresholdsFrom(samples, {});

  EXPECT_EQ(thresholds.single_bytes_min, 1048576U);
  EXPECT_EQ(thresholds.batch_bytes_min, 65536U);
  EXPECT_EQ(thresholds.single_count_max, gpu::CopyThresholds().single_count_max);
}

TEST(HbmCopyCalibrationTest, AWayThatNeverWinsIsLeftToLargerSizes) {
  const std::vector<CopySample> samples = {
      Sample(CopyMethod::kSingle, 65536, 30), Sample(CopyMethod::kBatch, 65536, 22),
      Sample(CopyMethod::kSingle, 4096, 90), Sample(CopyMethod::kBatch, 4096, 22)};

  EXPECT_EQ(ThresholdsFrom(samples, {}).single_bytes_min, 131072U);
}

TEST(HbmCopyCalibrationTest, WhatWasNotMeasuredStaysAsPublished) {
  // Also with half of a comparison.
  gpu::CopyThresholds defaults;
  defaults.single_bytes_min = 123;
  defaults.batch_bytes_min = 45;
  const std::vector<CopySample> samples = {Sample(CopyMethod::kSingle, 4096, 90)};

  for (const auto& thresholds : {ThresholdsFrom({}, defaults), ThresholdsFrom(samples, defaults)}) {
    EXPECT_EQ(thresholds.single_bytes_min, 123U);
    EXPECT_EQ(thresholds.batch_bytes_min, 45U);
  }
}

TEST(HbmCopyCalibrationTest, MeasuresEachWayAndEndsWithItsBudget) {
  // Nothing is left behind on the device, whatever was measured.
  SimGpu gpu(sim::CudaSchedule::kLazy);
  CalibrationOptions options;
  options.block_bytes = 16 << 10;
  options.kernels = &gpu::HostKernels();

  const auto all = Must(MeasureCopies(gpu.device(), SteppingClock(milliseconds(1)), options));
  const auto few = Must(MeasureCopies(gpu.device(), SteppingClock(milliseconds(70)), options));
  options.kernels = nullptr;
  const auto without = Must(MeasureCopies(gpu.device(), SteppingClock(milliseconds(1)), options));

  EXPECT_EQ(all.size(), 9U);
  EXPECT_LT(few.size(), 3U);
  EXPECT_EQ(without.size(), 6U);
  EXPECT_GT(gpu.cuda().counts().launches, 0U);
}

TEST(HbmCopyCalibrationTest, AFailureIsTheCallers) {
  // Who calibrates goes on with the published numbers.
  SimGpu gpu(sim::CudaSchedule::kEager);
  CalibrationOptions options;
  gpu.cuda().FailCall("cudaMalloc", 1, cudaErrorMemoryAllocation);
  EXPECT_STATUS(MeasureCopies(gpu.device(), SteppingClock(milliseconds(1)), options),
                StatusCode::kResourceExhausted);
  options.block_bytes = 2 << 20;
  EXPECT_STATUS(MeasureCopies(gpu.device(), SteppingClock(milliseconds(1)), options),
                StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvferry::tiers
