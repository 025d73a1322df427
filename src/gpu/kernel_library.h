// KernelLibrary: device code loaded by name, and its launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kvferry/status.h"

#include "gpu/stream.h"

namespace kvferry::gpu {

// Grid and block of a launch, and the bytes of dynamic shared memory.
struct LaunchShape {
  struct Extent {
    std::uint32_t x = 1;
    std::uint32_t y = 1;
    std::uint32_t z = 1;
  };
  Extent grid;
  Extent block;
  std::size_t shared_bytes = 0;
};

// A kernel of a loaded library, valid until that is destroyed. Cheap to copy.
//
// Takes one struct as its only argument; the struct's type belongs to the kernel's name, and a test
// compares its size with what the device code expects.
template <class Argument>
class Kernel {
 public:
  static_assert(std::is_trivially_copyable_v<Argument>);

  // Queues it in `stream`. What the argument points to is borrowed until an event behind it is
  // done; the argument itself is copied.
  Status Launch(Stream& stream, const LaunchShape& shape, const Argument& argument) const;

  const void* native() const noexcept { return kernel_; }

 private:
  friend class KernelLibrary;
  explicit Kernel(const void* kernel) : kernel_(kernel) {}

  const void* kernel_;
};

struct KernelFacts {
  int register_count = 0;
  std::size_t shared_bytes = 0;  // Static.
  std::size_t local_bytes = 0;
  int threads_max = 0;  // In a block.
};

// Device code in the runtime's hands. Unloading waits for nothing: what was launched must be done.
//
// Thread-compatible.
class KernelLibrary {
 public:
  class Token {
    friend class KernelLibrary;
    Token() = default;
  };

  // `image` is a fat binary or, for the simulated runtime, a HostKernelImage; borrowed until
  // destroyed.
  static Result<std::unique_ptr<KernelLibrary>> Load(Device& device, const void* image);

  KernelLibrary(Token token, Device& device, cudaLibrary_t library);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  // `Argument` must be the kernel's.
  template <class Argument>
  Result<Kernel<Argument>> Find(const char* name) {
    KVFERRY_ASSIGN_OR_RETURN(const void* kernel, FindNative(name));
    return Kernel<Argument>(kernel);
  }
  Result<KernelFacts> FactsOf(const void* kernel);
  // Allows launches with so much dynamic shared memory; more than 48 KiB needs this.
  Status AllowShared(const void* kernel, std::size_t shared_bytes);

 private:
  Result<const void*> FindNative(const char* name);

  Device& device_;
  cudaLibrary_t library_;
};

// The one launch: `argument` points to the kernel's only argument.
Status LaunchNative(Stream& stream,
                    const void* kernel,
                    const LaunchShape& shape,
                    const void* argument);

template <class Argument>
Status Kernel<Argument>::Launch(Stream& stream,
                                const LaunchShape& shape,
                                const Argument& argument) const {
  return LaunchNative(stream, kernel_, shape, &argument);
}

}  // namespace kvferry::gpu
