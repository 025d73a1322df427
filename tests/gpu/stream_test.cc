// Streams and events on each schedule.
#include "gpu/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <gtest/gtest.h>

#include "gpu/memory.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;

class GpuStreamTest : public ::testing::TestWithParam<sim::CudaSchedule> {};

INSTANTIATE_TEST_SUITE_P(AllSchedules,
                         GpuStreamTest,
                         kvferry::testing::EachSchedule(),
                         kvferry::testing::NameOfSchedule);

TEST_P(GpuStreamTest, OneStreamWaitsForAnother) {
  // Without the wait, the copy may read what was there before.
  SimGpu gpu(GetParam());
  Stream compute = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  Stream copies = Must(Stream::Create(gpu.device(), StreamPriority::kHighest));
  Event produced = Must(Event::Create(gpu.device()));
  DeviceBuffer block = Must(DeviceBuffer::Create(gpu.device(), 1000));
  PinnedBuffer host = Must(PinnedBuffer::Create(gpu.device(), 1000));

  ASSERT_OK(compute.Fill(block.data(), 42, 1000));
  ASSERT_OK(compute.Record(produced));
  ASSERT_OK(copies.WaitFor(produced));
  ASSERT_OK(copies.Copy(host.bytes().data(), block.data(), 1000));
  ASSERT_OK(copies.Synchronize());

  EXPECT_EQ(std::count(host.bytes().begin(), host.bytes().end(), std::byte{42}), 1000);
  EXPECT_TRUE(Must(copies.is_idle()));
}

TEST_P(GpuStreamTest, CopiesRowsWithSteps) {
  // The rows of a strided tensor become contiguous.
  SimGpu gpu(GetParam());
  Stream stream = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  DeviceBuffer device = Must(DeviceBuffer::Create(gpu.device(), 96));
  PinnedBuffer source = Must(PinnedBuffer::Create(gpu.device(), 96));
  PinnedBuffer target = Must(PinnedBuffer::Create(gpu.device(), 96));
  for (std::size_t i = 0; i < 96; ++i) {
    source.bytes()[i] = std::byte{static_cast<unsigned char>(i)};
  }
  std::memset(target.bytes().data(), 0, 96);

  Stream::Rows rows;
  rows.target = device.data();
  rows.target_step_bytes = 8;
  rows.source = source.bytes().data();
  rows.source_step_bytes = 24;
  rows.row_bytes = 8;
  rows.rows = 4;
  ASSERT_OK(stream.CopyRows(rows));
  ASSERT_OK(stream.Copy(target.bytes().data(), device.data(), 32));
  ASSERT_OK(stream.Synchronize());

  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(target.bytes()[i], source.bytes()[i / 8 * 24 + i % 8]) << i;
  }
}

TEST_P(GpuStreamTest, MovedHandlesAreReleasedOnce) {
  // The end of SimGpu finds a leak; the runtime refuses a second release.
  SimGpu gpu(GetParam());
  Stream first = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  Stream second = std::move(first);
  first = std::move(second);
  Event event = Must(Event::Create(gpu.device()));
  Event other = Must(Event::Create(gpu.device()));
  other = std::move(event);

  EXPECT_EQ(gpu.cuda().live().streams, 1U);
  EXPECT_EQ(gpu.cuda().live().events, 1U);
  EXPECT_OK(first.Record(other));
}

TEST_P(GpuStreamTest, FailsWhenTheRuntimeDoes) {
  // Each creation's error reaches the caller, with the call's name.
  SimGpu gpu(GetParam());
  gpu.cuda().FailCall("cudaStreamCreateWithPriority", 1, cudaErrorMemoryAllocation);
  gpu.cuda().FailCall("cudaEventCreateWithFlags", 1, cudaErrorMemoryAllocation);

  const auto stream = Stream::Create(gpu.device(), StreamPriority::kLowest);
  const auto event = Event::Create(gpu.device());

  EXPECT_STATUS(stream, StatusCode::kResourceExhausted);
  EXPECT_STATUS(event, StatusCode::kResourceExhausted);
  EXPECT_NE(event.error().message().find("cudaEventCreateWithFlags"), std::string_view::npos);
}

}  // namespace
}  // namespace kvferry::gpu
