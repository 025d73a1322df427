// KernelBench: runs a kernel on the simulated GPU over vectors of the host.
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <type_traits>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/random.h"
#include "gpu/kernel_library.h"
#include "gpu/kernel_shapes.h"
#include "gpu/kernels/images.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::testing {

inline float Value(__half value) {
  return __half2float(value);
}
inline float Value(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
template <class Element>
Element As(float value) {
  if constexpr (std::is_same_v<Element, __half>) {
    return __float2half_rn(value);
  } else {
    return __float2bfloat16_rn(value);
  }
}

// About normal, of spread 1.
template <class Element>
std::vector<Element> RandomValues(Random& random, std::size_t count) {
  std::vector<Element> values(count);
  for (Element& value : values) {
    double sum = -3;
    for (int i = 0; i < 6; ++i) {
      sum += random.Fraction();
    }
    value = As<Element>(static_cast<float>(sum * std::sqrt(2.0)));
  }
  return values;
}

// Device memory with the content of vectors, and their content again. Thread-compatible.
class KernelBench {
 public:
  explicit KernelBench(sim::CudaSchedule schedule = sim::CudaSchedule::kLazy)
      : gpu_(schedule),
        stream_(Must(gpu::Stream::Create(gpu_.device(), gpu::StreamPriority::kLowest))),
        library_(Must(gpu::KernelLibrary::Load(gpu_.device(), &gpu::HostKernels()))) {}

  // A copy of `values` in device memory, until this is destroyed.
  template <class T>
  T* Upload(const std::vector<T>& values) {
    const std::size_t size_bytes = values.size() * sizeof(T);
    buffers_.push_back(Must(gpu::DeviceBuffer::Create(gpu_.device(), size_bytes)));
    const gpu::PinnedBuffer host = Must(gpu::PinnedBuffer::Create(gpu_.device(), size_bytes));
    std::memcpy(host.bytes().data(), static_cast<const void*>(values.data()), size_bytes);
    EXPECT_OK(stream_.Copy(buffers_.back().data(), host.bytes().data(), size_bytes));
    EXPECT_OK(stream_.Synchronize());
    return reinterpret_cast<T*>(buffers_.back().data());
  }

  template <class T>
  std::vector<T> Download(const T* device, std::size_t count) {
    std::vector<T> values(count);
    const gpu::PinnedBuffer host =
        Must(gpu::PinnedBuffer::Create(gpu_.device(), count * sizeof(T)));
    EXPECT_OK(stream_.Copy(host.bytes().data(), device, count * sizeof(T)));
    EXPECT_OK(stream_.Synchronize());
    std::memcpy(static_cast<void*>(values.data()), host.bytes().data(), count * sizeof(T));
    return values;
  }

  template <class Argument>
  void Run(const std::string& name, const gpu::LaunchShape& shape, const Argument& argument) {
    const auto kernel = Must(library_->Find<Argument>(name.c_str()));
    EXPECT_OK(kernel.Launch(stream_, shape, argument));
    EXPECT_OK(stream_.Synchronize());
    EXPECT_EQ(gpu_.cuda().kernel_failure(), "");
  }

 private:
  SimGpu gpu_;
  gpu::Stream stream_;
  std::unique_ptr<gpu::KernelLibrary> library_;
  std::deque<gpu::DeviceBuffer> buffers_;
};

template <class Element>
std::string Suffix() {
  return std::is_same_v<Element, __half> ? "f16" : "bf16";
}

}  // namespace kvferry::testing
