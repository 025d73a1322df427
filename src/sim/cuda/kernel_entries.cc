// Entry functions: libraries of kernels, and their launch.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/cuda/block_runner.h"
#include "sim/cuda/cuda_entries.h"
#include "sim/cuda/cuda_model.h"

namespace kvferry::sim::entry {
namespace {

constexpr std::size_t kSharedBytesPlain = std::size_t{48} << 10;
constexpr std::size_t kSharedBytesMax = std::size_t{227} << 10;
constexpr unsigned kThreadsMax = 1024;
constexpr unsigned kGridRowsMax = 65535;

// The kernel that a handle of ours stands for; null for a foreign one.
const gpu::HostKernel* KernelOf(const CudaModel& model, const void* handle) {
  for (const auto& [library, image] : model.libraries) {
    for (const gpu::HostKernel& kernel : image->kernels) {
      if (&kernel == handle) {
        return &kernel;
      }
    }
  }
  return nullptr;
}

bool IsShapeRight(const CudaModel& model, const gpu::HostKernel& kernel, const GridShape& shape) {
  const std::uint64_t threads = std::uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  const auto allowed = model.allowed_shared.find(&kernel);
  const std::size_t shared_max =
      allowed == model.allowed_shared.end() ? kSharedBytesPlain : allowed->second;
  return threads > 0 && threads <= kThreadsMax && shape.block.z <= 64 && shape.grid.x > 0 &&
         shape.grid.y > 0 && shape.grid.z > 0 && shape.grid.y <= kGridRowsMax &&
         shape.grid.z <= kGridRowsMax && shape.shared_bytes <= shared_max;
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): the runtime's own parameters.
cudaError_t LibraryLoadData(cudaLibrary_t* library,
                            const void* code,
                            cudaJitOption* /*jit_options*/,
                            void** /*jit_values*/,
                            unsigned /*jit_count*/,
                            cudaLibraryOption* /*options*/,
                            void** /*values*/,
                            unsigned /*count*/) {
  CudaCall call("cudaLibraryLoadData", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  // A fat binary begins with another word; anything else is no image either.
  std::uint64_t mark = 0;
  std::memcpy(&mark, code, sizeof mark);
  if (mark != gpu::HostKernelImage::kMark) {
    return CudaCall::End(cudaErrorInvalidKernelImage);
  }
  char& handle = call.model().library_handles.emplace_back();
  call.model().libraries[&handle] = static_cast<const gpu::HostKernelImage*>(code);
  *library = reinterpret_cast<cudaLibrary_t>(&handle);
  return cudaSuccess;
}

cudaError_t LibraryUnload(cudaLibrary_t library) {
  CudaCall call("cudaLibraryUnload");
  if (call.failed()) {
    return call.error();
  }
  return CudaCall::End(call.model().libraries.erase(library) == 1 ? cudaSuccess
                                                                  : cudaErrorInvalidResourceHandle);
}

cudaError_t LibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  CudaCall call("cudaLibraryGetKernel");
  if (call.failed()) {
    return call.error();
  }
  const auto found = call.model().libraries.find(library);
  if (found == call.model().libraries.end()) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  for (const gpu::HostKernel& candidate : found->second->kernels) {
    if (std::strcmp(candidate.name, name) == 0) {
      *kernel = reinterpret_cast<cudaKernel_t>(const_cast<gpu::HostKernel*>(&candidate));
      return cudaSuccess;
    }
  }
  return CudaCall::End(cudaErrorSymbolNotFound);
}

cudaError_t FuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  CudaCall call("cudaFuncSetAttribute");
  if (call.failed()) {
    return call.error();
  }
  if (KernelOf(call.model(), kernel) == nullptr) {
    return CudaCall::End(cudaErrorInvalidDeviceFunction);
  }
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || static_cast<std::size_t>(value) > kSharedBytesMax) {
      return CudaCall::End(cudaErrorInvalidValue);
    }
    call.model().allowed_shared[kernel] = static_cast<std::size_t>(value);
  }
  return cudaSuccess;
}

cudaError_t FuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  CudaCall call("cudaFuncGetAttributes");
  if (call.failed()) {
    return call.error();
  }
  if (KernelOf(call.model(), kernel) == nullptr) {
    return CudaCall::End(cudaErrorInvalidDeviceFunction);
  }
  *attributes = {};
  attributes->maxThreadsPerBlock = static_cast<int>(kThreadsMax);
  return cudaSuccess;
}

cudaError_t OccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                      const void* kernel,
                                                      int block_threads,
                                                      std::size_t /*shared_bytes*/) {
  CudaCall call("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  if (call.failed()) {
    return call.error();
  }
  if (KernelOf(call.model(), kernel) == nullptr || block_threads <= 0) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  *blocks = 2048 / block_threads;
  return cudaSuccess;
}

// NOLINTNEXTLINE(readability-function-size): the runtime's own parameters.
cudaError_t LaunchKernel(const void* handle,
                         dim3 grid,
                         dim3 block,
                         void** arguments,
                         std::size_t shared_bytes,
                         cudaStream_t stream) {
  CudaCall call("cudaLaunchKernel");
  if (call.failed()) {
    return call.error();
  }
  CudaModel& model = call.model();
  if (!model.IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  const gpu::HostKernel* const kernel = KernelOf(model, handle);
  if (kernel == nullptr) {
    return CudaCall::End(cudaErrorInvalidDeviceFunction);
  }
  const GridShape shape{grid, block, shared_bytes};
  if (!IsShapeRight(model, *kernel, shape)) {
    return CudaCall::End(cudaErrorInvalidConfiguration);
  }
  ++model.counts.launches;
  if (stream->runner == nullptr) {
    stream->runner = std::make_unique<BlockRunner>();
  }
  const auto* const bytes = static_cast<const std::byte*>(arguments[0]);
  const std::uint64_t seed =
      model.options.schedule == CudaSchedule::kRandom ? model.random.Next() | 1U : 0;
  StreamOperation operation;
  operation.name = kernel->name;
  operation.run = [&model, kernel, shape, seed, runner = stream->runner.get(),
                   argument = std::vector<std::byte>(bytes, bytes + kernel->argument_bytes)] {
    if (runner->Run(*kernel, argument.data(), shape, seed)) {
      return cudaSuccess;
    }
    const Hush hush;
    model.SetKernelFailure(std::string(kernel->name) + ": " + runner->failure());
    return cudaErrorLaunchFailure;
  };
  model.Enqueue(*stream, std::move(operation));
  return CudaCall::End(model.sticky);
}

}  // namespace kvferry::sim::entry
