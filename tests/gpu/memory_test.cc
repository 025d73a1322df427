// Memory: owned once, registered as long as its guard lives.
#include "gpu/memory.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/stream.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;

TEST(GpuMemoryTest, MovedBuffersAreFreedOnce) {
  // The end of SimGpu finds what is left over.
  SimGpu gpu(sim::CudaSchedule::kLazy);
  DeviceBuffer device = Must(DeviceBuffer::Create(gpu.device(), 100));
  DeviceBuffer moved = std::move(device);
  moved = Must(DeviceBuffer::Create(gpu.device(), 200));
  PinnedBuffer pinned = Must(PinnedBuffer::Create(gpu.device(), 100));
  pinned = Must(PinnedBuffer::Create(gpu.device(), 300));

  EXPECT_EQ(moved.size_bytes(), 200U);
  EXPECT_EQ(pinned.bytes().size(), 300U);
  EXPECT_EQ(gpu.cuda().live().device_allocations, 1U);
  EXPECT_EQ(gpu.cuda().live().host_ranges, 1U);
}

TEST(GpuMemoryTest, RegisteredMemoryIsPinnedUntilItsGuardIsGone) {
  // A copy from memory that is not pinned is counted by the simulator.
  SimGpu gpu(sim::CudaSchedule::kLazy);
  Stream stream = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  DeviceBuffer device = Must(DeviceBuffer::Create(gpu.device(), 64));
  std::vector<std::byte> memory(64);
  {
    const HostRegistration registration = Must(HostRegistration::Create(gpu.device(), memory));
    ASSERT_OK(stream.Copy(device.data(), memory.data(), 64));
    ASSERT_OK(stream.Synchronize());
    EXPECT_EQ(gpu.cuda().counts().pageable_copies, 0U);
  }
  ASSERT_OK(stream.Copy(device.data(), memory.data(), 64));
  EXPECT_EQ(gpu.cuda().counts().pageable_copies, 1U);
}

TEST(GpuMemoryTest, AFailedRegistrationLeavesTheMemoryUsable) {
  // The engine falls back to staging.
  SimGpu gpu(sim::CudaSchedule::kEager);
  std::vector<std::byte> memory(64);
  gpu.cuda().FailCall("cudaHostRegister", 1, cudaErrorMemoryAllocation);

  EXPECT_STATUS(HostRegistration::Create(gpu.device(), memory), StatusCode::kResourceExhausted);

  EXPECT_OK(gpu.device().health());
  EXPECT_OK(HostRegistration::Create(gpu.device(), memory));
}

}  // namespace
}  // namespace kvferry::gpu
