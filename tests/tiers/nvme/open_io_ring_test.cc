// OpenIoRing: the chosen backend, the reason for it, and options out of range.
#include "tiers/nvme/open_io_ring.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

TEST(OpenIoRingTest, SaysWhyItIsNotIoUring) {
  const Result<OpenedIoRing> opened = OpenIoRing({}, {});
  ASSERT_OK(opened);
  ASSERT_NE(opened->ring, nullptr);
  EXPECT_EQ(opened->ring->in_flight_max(), IoRingOptions().in_flight_max);
  EXPECT_EQ(opened->warning.empty(), opened->backend == IoBackend::kUring);
}

TEST(OpenIoRingTest, TakesThreadsWithoutAWordWhenAsked) {
  IoRingOptions options;
  options.backend = IoBackend::kThreads;
  const Result<OpenedIoRing> opened = OpenIoRing({}, options);
  ASSERT_OK(opened);
  EXPECT_EQ(opened->backend, IoBackend::kThreads);
  EXPECT_EQ(opened->warning, "");
}

TEST(OpenIoRingTest, RefusesOptionsOutOfRange) {
  IoRingOptions options;
  options.in_flight_max = 0;
  EXPECT_STATUS(OpenIoRing({}, options), StatusCode::kInvalidArgument);
  options.in_flight_max = IoRingOptions::kInFlightMax + 1;
  EXPECT_STATUS(OpenIoRing({}, options), StatusCode::kInvalidArgument);
  options.in_flight_max = 1;
  options.thread_count = 0;
  EXPECT_STATUS(OpenIoRing({}, options), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvferry::tiers
