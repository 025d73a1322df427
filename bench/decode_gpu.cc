// The two runtimes, and the kernels that belong to each.
#include "bench/decode_gpu.h"

#include "base/bytes.h"
#include "gpu/kernels/images.h"

namespace kvferry::bench {
namespace {

// Guarded memory shows every access from the host, and costs with its size.
constexpr std::uint64_t kGuardedBytesMax = 16 * kMiB;

}  // namespace

Result<std::unique_ptr<DecodeGpu>> DecodeGpu::OpenCuda(std::uint32_t device) {
  auto opened = std::make_unique<DecodeGpu>(Token());
  KVFERRY_ASSIGN_OR_RETURN(opened->library_, gpu::CudaLibrary::Load({}));
  KVFERRY_ASSIGN_OR_RETURN(opened->device_,
                           gpu::Device::Open(opened->library_->api(), static_cast<int>(device)));
  opened->kernels_ = gpu::DeviceKernels();
  if (opened->kernels_ == nullptr) {
    return Status::Error(StatusCode::kUnavailable,
                         "this build has no kernels for a GPU: nvcc was not found when it was "
                         "configured");
  }
  opened->description_ = opened->device_->facts().name;
  return opened;
}

Result<std::unique_ptr<DecodeGpu>> DecodeGpu::OpenSim(sim::CudaSchedule schedule,
                                                      std::uint64_t seed,
                                                      std::uint64_t device_bytes) {
  auto opened = std::make_unique<DecodeGpu>(Token());
  sim::SimCudaOptions options;
  options.schedule = schedule;
  options.seed = seed;
  options.device_bytes = device_bytes;
  options.is_memory_guarded = device_bytes <= kGuardedBytesMax;
  opened->sim_ = std::make_unique<sim::SimCuda>(options);
  KVFERRY_ASSIGN_OR_RETURN(opened->device_, gpu::Device::Open(opened->sim_->api(), 0));
  opened->kernels_ = &gpu::HostKernels();
  opened->description_ =
      "simulated CUDA runtime, " + std::string(sim::ToString(schedule)) + " schedule";
  return opened;
}

const gpu::CudaApi& DecodeGpu::api() const {
  return sim_ != nullptr ? sim_->api() : library_->api();
}

Status DecodeGpu::CheckKernels() const {
  const std::string failure = sim_ == nullptr ? std::string() : sim_->kernel_failure();
  return failure.empty() ? Status::Ok()
                         : Status::Error(StatusCode::kInternal, "a kernel was stopped: " + failure);
}

}  // namespace kvferry::bench
