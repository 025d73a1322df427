// DecodeGpu: the device of a `bench decode`: a GPU, or the simulated runtime in its place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kvferry/status.h"

#include "gpu/cuda_library.h"
#include "gpu/device.h"
#include "sim/cuda/sim_cuda.h"

namespace kvferry::bench {

// Both are behind the same table, so all that is done with either is the same code. The simulated
// runtime is the process's only one. Everything made with it goes before it does.
//
// Thread-compatible.
class DecodeGpu {
  struct Token {};  // Only Open... can name it.

 public:
  // kUnavailable, saying what was tried, without a CUDA runtime, driver or GPU, and in a build
  // without kernels for one; kInvalidArgument for a GPU that is not there.
  static Result<std::unique_ptr<DecodeGpu>> OpenCuda(std::uint32_t device);
  // `device_bytes` is the memory that the simulated device has.
  static Result<std::unique_ptr<DecodeGpu>> OpenSim(sim::CudaSchedule schedule,
                                                    std::uint64_t seed,
                                                    std::uint64_t device_bytes);

  explicit DecodeGpu(Token /*token*/) {}
  DecodeGpu(const DecodeGpu&) = delete;
  DecodeGpu& operator=(const DecodeGpu&) = delete;
  ~DecodeGpu() = default;

  gpu::Device& device() const { return *device_; }
  const gpu::CudaApi& api() const;
  const void* kernels() const { return kernels_; }
  // "NVIDIA H200", "simulated CUDA runtime, lazy schedule".
  const std::string& description() const { return description_; }
  // What a kernel of the simulated runtime was stopped for; Ok on a GPU, where that is an error of
  // the next call.
  Status CheckKernels() const;

 private:
  std::unique_ptr<gpu::CudaLibrary> library_;
  std::unique_ptr<sim::SimCuda> sim_;
  std::unique_ptr<gpu::Device> device_;  // Goes before its table.
  const void* kernels_ = nullptr;
  std::string description_;
};

}  // namespace kvferry::bench
