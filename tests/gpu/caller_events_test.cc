// Events of callers' streams, taken and given back on any thread.
#include "gpu/caller_events.h"

#include <optional>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;

TEST(GpuCallerEventsTest, AreGivenBackOnceAndThenTakenAgain) {
  // A pool that leaks refuses every put after a while.
  SimGpu gpu(sim::CudaSchedule::kLazy);
  const Stream caller = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  const auto events = Must(CallerEvents::Create(gpu.device(), 2));
  std::optional<CallerEvent> first = Must(events->Record(caller.native()));
  CallerEvent second = Must(events->Record(caller.native()));
  EXPECT_STATUS(events->Record(caller.native()), StatusCode::kResourceExhausted);

  second = std::move(*first);
  first.reset();

  CallerEvent third = Must(events->Record(caller.native()));
  EXPECT_STATUS(events->Record(caller.native()), StatusCode::kResourceExhausted);
  EXPECT_NE((*second).native(), (*third).native());
}

TEST(GpuCallerEventsTest, ARefusedStreamTakesNone) {
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto events = Must(CallerEvents::Create(gpu.device(), 1));
  const Stream caller = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));

  EXPECT_STATUS(events->Record(nullptr), StatusCode::kInvalidArgument);
  gpu.cuda().FailCall("cudaEventRecord", 1, cudaErrorMemoryAllocation);
  EXPECT_STATUS(events->Record(caller.native()), StatusCode::kResourceExhausted);

  EXPECT_OK(events->Record(caller.native()));
}

void RecordOften(Device& device, CallerEvents& events) {
  EXPECT_OK(device.EnterThread());
  const Stream stream = Must(Stream::Create(device, StreamPriority::kLowest));
  for (int round = 0; round < 50; ++round) {
    EXPECT_OK(events.Record(stream.native()));
  }
}

TEST(GpuCallerEventsTest, ManyThreadsShareThem) {
  // The thread sanitizer looks at the pool behind the lock.
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto events = Must(CallerEvents::Create(gpu.device(), 2));
  std::thread other([&] { RecordOften(gpu.device(), *events); });

  RecordOften(gpu.device(), *events);
  other.join();
}

}  // namespace
}  // namespace kvferry::gpu
