// Prints each kernel's name and the size of its argument, as the host compiler lays it out.
#include <cstdio>

#include "gpu/kernels/images.h"

int main() {
  for (const kvferry::gpu::HostKernel& kernel : kvferry::gpu::HostKernels().kernels) {
    std::printf("%s %zu\n", kernel.name, kernel.argument_bytes);
  }
  return 0;
}
