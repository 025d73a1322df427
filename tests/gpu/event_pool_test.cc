// The pool of events: bounded, and each event comes back once.
#include "gpu/event_pool.h"

#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;

TEST(GpuEventPoolTest, RefusesRatherThanGrows) {
  // A full pool is back-pressure.
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto pool = Must(EventPool::Create(gpu.device(), 2));
  std::optional<PooledEvent> first = Must(pool->Take());
  const PooledEvent second = Must(pool->Take());

  EXPECT_STATUS(pool->Take(), StatusCode::kResourceExhausted);
  EXPECT_EQ(gpu.cuda().live().events, 2U);
  first.reset();

  EXPECT_OK(pool->Take());
  EXPECT_EQ(pool->free_count(), 1U);
}

TEST(GpuEventPoolTest, MovedEventsComeBackOnce) {
  // Twice would hand one event to two users.
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto pool = Must(EventPool::Create(gpu.device(), 3));
  {
    PooledEvent event = Must(pool->Take());
    PooledEvent moved = std::move(event);
    PooledEvent other = Must(pool->Take());
    other = std::move(moved);
    EXPECT_EQ(pool->free_count(), 2U);
    EXPECT_TRUE(Must(other->is_done()));
  }
  EXPECT_EQ(pool->free_count(), 3U);
}

TEST(GpuEventPoolTest, AWaitKeepsItsMeaningWhenTheEventComesBack) {
  // CUDA binds a wait to the record of its time: the pool may give the event to somebody else.
  SimGpu gpu(sim::CudaSchedule::kLazy);
  const auto pool = Must(EventPool::Create(gpu.device(), 1));
  Stream first = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  Stream second = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
  {
    const PooledEvent event = Must(pool->Take());
    ASSERT_OK(first.Record(*event));
    ASSERT_OK(second.WaitFor(*event));
  }
  const PooledEvent again = Must(pool->Take());
  ASSERT_OK(second.Record(*again));

  EXPECT_OK(second.Synchronize());
  EXPECT_EQ(gpu.cuda().counts().operations, 3U);
}

}  // namespace
}  // namespace kvferry::gpu
