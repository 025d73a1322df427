// HostKernelImage: kernels compiled for the host, in the place of a fat binary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvferry::gpu {

// One kernel as the host compiler made it. Each takes one struct by value, as all of ours do.
struct HostKernel {
  const char* name;
  std::size_t argument_bytes;
  // Runs the body for the current simulated thread, with a copy of the argument.
  void (*run)(const void* argument);
};

template <class Argument, void (*kBody)(Argument)>
constexpr HostKernel MakeHostKernel(const char* name) {
  return {name, sizeof(Argument), [](const void* argument) {
            kBody(*static_cast<const Argument*>(argument));
          }};
}

// What a simulated cudaLibraryLoadData is given. Its mark differs from a fat binary's, so each
// runtime refuses the other's image instead of reading it as its own.
struct HostKernelImage {
  static constexpr std::uint64_t kMark = 0x6b76666b65726e31;  // "kvfkern1".
  std::uint64_t mark = kMark;
  std::span<const HostKernel> kernels;
};

}  // namespace kvferry::gpu
