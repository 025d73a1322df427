// The simulated runtime's table, and its control by tests.
#include "sim/cuda/sim_cuda.h"

#include <utility>

#include "sim/cuda/cuda_entries.h"
#include "sim/cuda/cuda_model.h"

namespace kvferry::sim {

std::string_view ToString(CudaSchedule schedule) noexcept {
  switch (schedule) {
    case CudaSchedule::kEager:
      return "eager";
    case CudaSchedule::kLazy:
      return "lazy";
    case CudaSchedule::kRandom:
      return "random";
    case CudaSchedule::kThreads:
      return "threads";
  }
  return "unknown";
}

SimCuda::SimCuda(const SimCudaOptions& options) {
  const Hush hush;
  model_ = std::make_unique<CudaModel>(options);
#define KVFERRY_SIM_CUDA_FILL(name) api_.cuda##name = &entry::name;
  KVFERRY_CUDA_ENTRY_POINTS(KVFERRY_SIM_CUDA_FILL)
#undef KVFERRY_SIM_CUDA_FILL
}

SimCuda::~SimCuda() {
  const Hush hush;
  model_.reset();
}

void SimCuda::FailCall(std::string_view name, std::uint32_t nth, cudaError_t error) {
  const Hush hush;
  const std::unique_lock<std::mutex> lock(model_->mutex);
  model_->injected[std::string(name)] = {nth, error};
}

void SimCuda::FailOperation(std::uint32_t nth, cudaError_t error) {
  const Hush hush;
  const std::unique_lock<std::mutex> lock(model_->mutex);
  model_->fail_operation_in = nth;
  model_->fail_operation_error = error;
}

bool SimCuda::BeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Hush hush;
  const std::unique_lock<std::mutex> lock(model_->mutex);
  return model_->BeginCapture(stream, mode);
}

bool SimCuda::EndCapture(cudaStream_t stream) {
  const Hush hush;
  const std::unique_lock<std::mutex> lock(model_->mutex);
  return model_->EndCapture(stream);
}

std::string SimCuda::kernel_failure() const {
  const Hush hush;
  return model_->kernel_failure();
}

SimCudaCounts SimCuda::counts() const {
  const Hush hush;
  const std::unique_lock<std::mutex> lock(model_->mutex);
  return model_->counts;
}

SimCudaLive SimCuda::live() const {
  const Hush hush;
  const std::unique_lock<std::mutex> lock(model_->mutex);
  return model_->live();
}

}  // namespace kvferry::sim
