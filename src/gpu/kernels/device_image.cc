// The fat binary that nvcc made, inside of ours.
#include "gpu/kernels/images.h"

#ifdef KVFERRY_FATBIN
extern "C" const unsigned char kvferry_fatbin[];  // NOLINT(modernize-avoid-c-arrays)
asm(".section .rodata\n"
    ".balign 16\n"
    ".hidden kvferry_fatbin\n"
    ".globl kvferry_fatbin\n"
    "kvferry_fatbin:\n"
    ".incbin \"" KVFERRY_FATBIN
    "\"\n"
    ".previous\n");
#endif

namespace kvferry::gpu {

const void* DeviceKernels() noexcept {
#ifdef KVFERRY_FATBIN
  return &kvferry_fatbin;
#else
  return nullptr;
#endif
}

}  // namespace kvferry::gpu
