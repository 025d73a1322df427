// The fat binary: there, of the form that the driver takes, and refused by the simulator.
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

#include "gpu/kernel_library.h"
#include "gpu/kernels/images.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

TEST(GpuKernelImageTest, BuildWithNvccHasAFatBinary) {
  // An empty or missing image would only show on a GPU.
  const void* const image = DeviceKernels();
  ASSERT_NE(image, nullptr);
  std::uint32_t mark = 0;
  std::memcpy(&mark, image, sizeof mark);

  EXPECT_EQ(mark, 0xba55ed50U);  // fatbinary.h: FATBIN_MAGIC.
}

TEST(GpuKernelImageTest, SimulatedRuntimeRefusesDeviceCode) {
  // It would run bytes of another machine.
  testing::SimGpu gpu(sim::CudaSchedule::kEager);

  EXPECT_STATUS(KernelLibrary::Load(gpu.device(), DeviceKernels()), StatusCode::kDeviceError);
}

}  // namespace
}  // namespace kvferry::gpu
