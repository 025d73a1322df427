// Opening a GPU, its errors, and captures of others.
#include "gpu/device.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/caller_stream.h"
#include "gpu/cuda_error.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;
using ::testing::HasSubstr;

std::string ReasonOf(const sim::SimCudaOptions& options) {
  const sim::SimCuda cuda(options);
  const auto device = Device::Open(cuda.api(), 0);
  return device.ok() ? "" : std::string(device.error().message());
}

TEST(GpuDeviceTest, SaysWhyNoGpuIsUsed) {
  // Three different things for the reader to mend.
  sim::SimCudaOptions no_driver;
  no_driver.has_driver = false;
  sim::SimCudaOptions none_visible;
  none_visible.device_count = 0;
  sim::SimCudaOptions too_old;
  too_old.compute_major = 7;

  EXPECT_THAT(ReasonOf(no_driver), HasSubstr("there is no NVIDIA driver"));
  EXPECT_THAT(ReasonOf(none_visible), HasSubstr("no device is visible"));
  EXPECT_THAT(ReasonOf(too_old), HasSubstr("compute capability 7.0, kernels need 8.0"));
  EXPECT_EQ(ReasonOf({}), "");
}

TEST(GpuDeviceTest, RefusesADeviceThatIsNotThere) {
  // The index is a caller's.
  const sim::SimCuda cuda{sim::SimCudaOptions()};

  EXPECT_STATUS(Device::Open(cuda.api(), 1), StatusCode::kInvalidArgument);
  EXPECT_STATUS(Device::Open(cuda.api(), -1), StatusCode::kInvalidArgument);
}

TEST(GpuDeviceTest, TellsWhatItIs) {
  // What the operators' page shows.
  SimGpu gpu(sim::CudaSchedule::kEager);

  EXPECT_EQ(gpu.device().facts().name, "simulated GPU 0");
  EXPECT_EQ(gpu.device().facts().compute_major, 9);
  EXPECT_EQ(gpu.device().facts().pci_bus_id, "0000:01:00.0");
  EXPECT_EQ(Must(gpu.device().memory_info()).total_bytes, std::uint64_t{1} << 30);
  EXPECT_LT(gpu.device().priority_highest(), gpu.device().priority_lowest());
}

TEST(GpuDeviceTest, MapsErrorsByWhatACallerCanDo) {
  // Each class of error wants another reaction.
  EXPECT_EQ(CodeOf(cudaErrorMemoryAllocation), StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(cudaErrorNoDevice), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(cudaErrorStreamCaptureUnsupported), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(cudaErrorIllegalAddress), StatusCode::kDeviceError);
  EXPECT_TRUE(IsSticky(cudaErrorIllegalAddress));
  EXPECT_TRUE(IsSticky(cudaErrorECCUncorrectable));
  EXPECT_FALSE(IsSticky(cudaErrorMemoryAllocation));
  EXPECT_FALSE(IsSticky(cudaErrorNotReady));
}

TEST(GpuDeviceTest, OutOfMemoryLosesNothing) {
  // A full device is back-pressure.
  SimGpu gpu(sim::CudaSchedule::kEager);

  EXPECT_STATUS(DeviceBuffer::Create(gpu.device(), std::size_t{2} << 30),
                StatusCode::kResourceExhausted);

  EXPECT_OK(gpu.device().health());
  EXPECT_OK(DeviceBuffer::Create(gpu.device(), 16));
}

TEST(GpuDeviceTest, KeepsTheFirstStickyErrorAndCallsNothingMore) {
  // The error comes late, with whichever call is next, and stays.
  SimGpu gpu(sim::CudaSchedule::kLazy);
  Stream stream = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  DeviceBuffer buffer = Must(DeviceBuffer::Create(gpu.device(), 64));
  gpu.cuda().FailOperation(1, cudaErrorIllegalAddress);
  ASSERT_OK(stream.Fill(buffer.data(), 1, 64));

  const Status late = stream.Synchronize();

  EXPECT_EQ(late.code(), StatusCode::kDeviceError);
  EXPECT_EQ(late.native_code(), static_cast<int>(cudaErrorIllegalAddress));
  EXPECT_THAT(std::string(late.message()), HasSubstr("an earlier operation"));
  EXPECT_STATUS(gpu.device().health(), StatusCode::kDeviceError);
  gpu.cuda().FailCall("cudaMalloc", 1, cudaErrorUnknown);  // Would be another error, if called.
  const auto after = DeviceBuffer::Create(gpu.device(), 16);
  ASSERT_FALSE(after.ok());
  EXPECT_EQ(after.error().native_code(), static_cast<int>(cudaErrorIllegalAddress));
}

TEST(GpuDeviceTest, LeavesNoErrorBehindForTheCallersOwnChecks) {
  // A server that checks cudaGetLastError after its launch must not find ours.
  SimGpu gpu(sim::CudaSchedule::kLazy);
  Stream stream = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  Event event = Must(Event::Create(gpu.device()));
  DeviceBuffer buffer = Must(DeviceBuffer::Create(gpu.device(), 64));
  ASSERT_OK(stream.Fill(buffer.data(), 1, 64));
  ASSERT_OK(stream.Record(event));
  bool was_late = false;
  while (!Must(event.is_done())) {
    was_late = true;
    EXPECT_EQ(gpu.cuda().api().cudaPeekAtLastError(), cudaSuccess);
  }
  EXPECT_TRUE(was_late);

  EXPECT_STATUS(stream.Fill(buffer.data(), 1, 65), StatusCode::kDeviceError);

  EXPECT_EQ(gpu.cuda().api().cudaPeekAtLastError(), cudaSuccess);
  EXPECT_OK(gpu.device().health());
}

TEST(GpuDeviceTest, PollsWhileAServerCapturesInGlobalMode) {
  // Without the relaxed mode of our thread, the server loses its CUDA graph.
  SimGpu gpu(sim::CudaSchedule::kEager);
  Stream server = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  Event event = Must(Event::Create(gpu.device()));
  ASSERT_TRUE(gpu.cuda().BeginCapture(server.native(), cudaStreamCaptureModeGlobal));

  std::thread mover([&] {
    EXPECT_OK(gpu.device().EnterThread());
    EXPECT_OK(event.is_done());
    EXPECT_OK(DeviceBuffer::Create(gpu.device(), 16));
    EXPECT_OK(PinnedBuffer::Create(gpu.device(), 16));
  });
  mover.join();

  EXPECT_TRUE(gpu.cuda().EndCapture(server.native()));
}

TEST(GpuDeviceTest, RefusesACallersStreamUnderCapture) {
  // What is recorded then happens when the graph is launched, which is not what a put means.
  SimGpu gpu(sim::CudaSchedule::kEager);
  Stream server = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  Event event = Must(Event::Create(gpu.device()));
  EXPECT_OK(RecordCallerStream(event, server.native()));
  EXPECT_OK(MakeCallerStreamWait(server.native(), event));
  ASSERT_TRUE(gpu.cuda().BeginCapture(server.native(), cudaStreamCaptureModeGlobal));

  const Status recorded = RecordCallerStream(event, server.native());
  EXPECT_STATUS(MakeCallerStreamWait(server.native(), event), StatusCode::kInvalidArgument);

  EXPECT_STATUS(recorded, StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(recorded.message()), HasSubstr("under capture"));
  EXPECT_TRUE(gpu.cuda().EndCapture(server.native()));
  EXPECT_STATUS(RecordCallerStream(event, nullptr), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvferry::gpu
