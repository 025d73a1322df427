// SimGpu: a simulated runtime with an open device, for tests.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "gpu/device.h"
#include "sim/cuda/sim_cuda.h"

namespace kvferry::testing {

inline sim::SimCudaOptions ScheduledAs(sim::CudaSchedule schedule) {
  sim::SimCudaOptions options;
  options.schedule = schedule;
  return options;
}

// For suites with the schedule as their parameter: all of them, and what each is called.
inline auto EachSchedule() {
  return ::testing::Values(sim::CudaSchedule::kEager, sim::CudaSchedule::kLazy,
                           sim::CudaSchedule::kRandom, sim::CudaSchedule::kThreads);
}
inline std::string NameOfSchedule(const ::testing::TestParamInfo<sim::CudaSchedule>& schedule) {
  return std::string(ToString(schedule.param));
}

// Takes the value of what must not fail.
template <class T>
T Must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return std::move(*result);
}

// At the end nothing of the runtime's may be left, unless the device was lost. Thread-compatible.
class SimGpu {
 public:
  explicit SimGpu(const sim::SimCudaOptions& options)
      : cuda_(options), device_(Must(gpu::Device::Open(cuda_.api(), 0))) {}
  explicit SimGpu(sim::CudaSchedule schedule) : SimGpu(ScheduledAs(schedule)) {}
  ~SimGpu() {
    if (device_->health().ok()) {
      EXPECT_EQ(cuda_.live(), sim::SimCudaLive());
      EXPECT_EQ(cuda_.api().cudaPeekAtLastError(), cudaSuccess);
    }
  }
  SimGpu(const SimGpu&) = delete;
  SimGpu& operator=(const SimGpu&) = delete;

  sim::SimCuda& cuda() { return cuda_; }
  gpu::Device& device() { return *device_; }

 private:
  sim::SimCuda cuda_;
  std::unique_ptr<gpu::Device> device_;
};

}  // namespace kvferry::testing
