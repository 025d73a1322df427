// Kernels found by name and launched through the wrappers.
#include "gpu/kernel_library.h"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include "gpu/host_kernels.h"
#include "gpu/kernels/language.h"
#include "gpu/memory.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;

struct Numbering {
  std::uint32_t* words;
  std::uint32_t first;
};
void Number(Numbering argument) {
  const std::uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  argument.words[index] = argument.first + index;
}
constexpr std::array<HostKernel, 1> kKernels = {MakeHostKernel<Numbering, Number>("number")};
const HostKernelImage kImage{HostKernelImage::kMark, kKernels};

TEST(GpuKernelLibraryTest, LaunchesAKernel) {
  // Load, find, launch: the way of the shipped kernels.
  SimGpu gpu(sim::CudaSchedule::kLazy);
  Stream stream = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  DeviceBuffer device = Must(DeviceBuffer::Create(gpu.device(), 256));
  PinnedBuffer host = Must(PinnedBuffer::Create(gpu.device(), 256));
  const auto library = Must(KernelLibrary::Load(gpu.device(), &kImage));
  const auto number = Must(library->Find<Numbering>("number"));

  LaunchShape shape;
  shape.grid.x = 2;
  shape.block.x = 32;
  ASSERT_OK(number.Launch(stream, shape, {reinterpret_cast<std::uint32_t*>(device.data()), 5}));
  ASSERT_OK(stream.Copy(host.bytes().data(), device.data(), 256));
  ASSERT_OK(stream.Synchronize());

  const auto* const words = reinterpret_cast<const std::uint32_t*>(host.bytes().data());
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(words[i], 5 + i);
  }
  EXPECT_EQ(Must(library->FactsOf(number.native())).threads_max, 1024);
  EXPECT_OK(library->AllowShared(number.native(), 100 << 10));
}

TEST(GpuKernelLibraryTest, NamesTheKernelThatIsMissing) {
  // A build that lacks one must say which.
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto library = Must(KernelLibrary::Load(gpu.device(), &kImage));

  const auto missing = library->Find<Numbering>("letter");

  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message().find("kernel letter"), std::string_view::npos);
  EXPECT_OK(gpu.device().health());
}

}  // namespace
}  // namespace kvferry::gpu
