// Loading and launching kernels.
#include "gpu/kernel_library.h"

#include <array>
#include <string>

namespace kvferry::gpu {

Result<std::unique_ptr<KernelLibrary>> KernelLibrary::Load(Device& device, const void* image) {
  KVFERRY_RETURN_IF_ERROR(device.health());
  cudaLibrary_t library = nullptr;
  KVFERRY_RETURN_IF_ERROR(device.Check(
      device.api().cudaLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
      "cudaLibraryLoadData"));
  return std::make_unique<KernelLibrary>(Token(), device, library);
}

KernelLibrary::KernelLibrary(Token /*token*/, Device& device, cudaLibrary_t library)
    : device_(device), library_(library) {}

KernelLibrary::~KernelLibrary() {
  if (device_.health().ok()) {
    device_.Check(device_.api().cudaLibraryUnload(library_), "cudaLibraryUnload").IgnoreError();
  }
}

Result<const void*> KernelLibrary::FindNative(const char* name) {
  KVFERRY_RETURN_IF_ERROR(device_.health());
  cudaKernel_t kernel = nullptr;
  const Status status = device_.Check(device_.api().cudaLibraryGetKernel(&kernel, library_, name),
                                      "cudaLibraryGetKernel");
  if (!status.ok()) {
    return status.WithContext(std::string("kernel ") + name);
  }
  // A cudaKernel_t may stand wherever the runtime takes a kernel's host function.
  return static_cast<const void*>(kernel);
}

Result<KernelFacts> KernelLibrary::FactsOf(const void* kernel) {
  KVFERRY_RETURN_IF_ERROR(device_.health());
  cudaFuncAttributes attributes{};
  KVFERRY_RETURN_IF_ERROR(device_.Check(device_.api().cudaFuncGetAttributes(&attributes, kernel),
                                        "cudaFuncGetAttributes"));
  return KernelFacts{attributes.numRegs, attributes.sharedSizeBytes, attributes.localSizeBytes,
                     attributes.maxThreadsPerBlock};
}

Status KernelLibrary::AllowShared(const void* kernel, std::size_t shared_bytes) {
  KVFERRY_RETURN_IF_ERROR(device_.health());
  return device_.Check(
      device_.api().cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shared_bytes)),
      "cudaFuncSetAttribute");
}

Status LaunchNative(Stream& stream,
                    const void* kernel,
                    const LaunchShape& shape,
                    const void* argument) {
  Device& device = stream.device();
  KVFERRY_RETURN_IF_ERROR(device.health());
  const dim3 grid{shape.grid.x, shape.grid.y, shape.grid.z};
  const dim3 block{shape.block.x, shape.block.y, shape.block.z};
  std::array<void*, 1> arguments = {const_cast<void*>(argument)};
  return device.Check(device.api().cudaLaunchKernel(kernel, grid, block, arguments.data(),
                                                    shape.shared_bytes, stream.native()),
                      "cudaLaunchKernel");
}

}  // namespace kvferry::gpu
