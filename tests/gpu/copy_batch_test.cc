// Batches of copies on each schedule.
#include "gpu/copy_batch.h"

#include <cstring>

#include <gtest/gtest.h>

#include "gpu/memory.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;

TEST(GpuCopyBatchTest, CopiesAllOfItAndIsEmptyAgain) {
  // In whichever order the runtime takes them.
  SimGpu gpu(sim::CudaSchedule::kLazy);
  Stream stream = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  DeviceBuffer device = Must(DeviceBuffer::Create(gpu.device(), 400));
  PinnedBuffer up = Must(PinnedBuffer::Create(gpu.device(), 400));
  PinnedBuffer down = Must(PinnedBuffer::Create(gpu.device(), 400));
  for (std::size_t i = 0; i < 400; ++i) {
    up.bytes()[i] = std::byte{static_cast<unsigned char>(i / 3)};
  }
  CopyBatch batch(4);

  for (std::size_t i = 0; i < 4; ++i) {
    batch.Add(device.data() + 100 * (3 - i), up.bytes().data() + 100 * i, 100);
  }
  EXPECT_TRUE(batch.is_full());
  ASSERT_OK(batch.Submit(stream));
  EXPECT_EQ(batch.size(), 0U);
  for (std::size_t i = 0; i < 4; ++i) {
    batch.Add(down.bytes().data() + 100 * (3 - i), device.data() + 100 * i, 100);
  }
  ASSERT_OK(batch.Submit(stream));
  ASSERT_OK(batch.Submit(stream));  // Nothing left: nothing done.
  ASSERT_OK(stream.Synchronize());

  EXPECT_EQ(std::memcmp(up.bytes().data(), down.bytes().data(), 400), 0);
  EXPECT_EQ(gpu.cuda().counts().copies, 8U);
}

TEST(GpuCopyBatchTest, IsEmptyAfterAFailureToo) {
  // What is left over would be copied with the next batch.
  SimGpu gpu(sim::CudaSchedule::kEager);
  Stream stream = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  DeviceBuffer device = Must(DeviceBuffer::Create(gpu.device(), 16));
  PinnedBuffer host = Must(PinnedBuffer::Create(gpu.device(), 16));
  CopyBatch batch(2);
  batch.Add(device.data(), host.bytes().data(), 16);
  gpu.cuda().FailCall("cudaMemcpyBatchAsync", 1, cudaErrorInvalidValue);

  EXPECT_STATUS(batch.Submit(stream), StatusCode::kDeviceError);

  EXPECT_EQ(batch.size(), 0U);
  EXPECT_OK(gpu.device().health());
}

}  // namespace
}  // namespace kvferry::gpu
