// The kernels that the host compiler made, as an image for the simulated runtime.
#include <array>

#include "gpu/kernels/images.h"
#include "gpu/kernels/kernel_list.h"

#define KVFERRY_DECLARE_KERNEL(name, Argument) void name(kvferry::gpu::Argument);
extern "C" {
KVFERRY_KERNELS(KVFERRY_DECLARE_KERNEL)
}

namespace kvferry::gpu {

const HostKernelImage& HostKernels() noexcept {
#define KVFERRY_LIST_KERNEL(name, Argument) MakeHostKernel<Argument, name>(#name),
  static constexpr std::array kKernels = {KVFERRY_KERNELS(KVFERRY_LIST_KERNEL)};
#undef KVFERRY_LIST_KERNEL
  static const HostKernelImage kImage{HostKernelImage::kMark, kKernels};
  return kImage;
}

}  // namespace kvferry::gpu
