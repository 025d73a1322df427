// The order of transfers, and the bytes that an arrow has in flight.
#include "engine/transfer_scheduler.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry::engine {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Instant At(std::int64_t ms) {
  return Instant(std::chrono::milliseconds(ms));
}

// Keeps the arrow as full as it lets itself be filled, for a second of a drive that ends so much
// in a millisecond.
void RunFull(ArrowMeter& meter, std::uint64_t bytes_per_ms) {
  for (std::int64_t ms = 1; ms <= 1'000; ++ms) {
    while (meter.HasRoom(kMiB)) {
      meter.Start(At(ms), kMiB);
    }
    for (std::uint64_t ended = 0; ended < bytes_per_ms && meter.bytes_in_flight() > 0;
         ended += kMiB) {
      meter.End(At(ms + 1), kMiB);
    }
  }
}

// A drive whose transfers are larger than the cap would never be asked again.
TEST(ArrowMeterTest, TakesTwoTransfersOfAnySize) {
  ArrowMeter meter;
  constexpr std::uint64_t kHuge = 64 * kMiB;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(meter.HasRoom(kHuge));
    meter.Start(At(1), kHuge);
  }

  EXPECT_FALSE(meter.HasRoom(1));
  meter.End(At(2), kHuge);
  EXPECT_TRUE(meter.HasRoom(kHuge));
}

TEST(ArrowMeterTest, AFastDriveRaisesTheCapToTwoMillisecondsOfIt) {
  ArrowMeter meter;

  RunFull(meter, 15 * kMiB);

  EXPECT_GT(meter.bytes_cap(), 24 * kMiB);
  EXPECT_LT(meter.bytes_cap(), 40 * kMiB);
}

// Demand would wait behind seconds of other work.
TEST(ArrowMeterTest, ASlowDriveLowersTheCapToItsFloor) {
  ArrowMeter meter;

  RunFull(meter, 1);

  EXPECT_EQ(meter.bytes_cap(), ArrowMeter::kBytesFloor);
}

// A drive so quick that all of its transfers end in one step would never be measured.
TEST(ArrowMeterTest, MeasuresADriveThatEndsAllTransfersInOneStep) {
  ArrowMeter meter;
  for (std::int64_t ms = 1; ms < 200; ++ms) {
    while (meter.HasRoom(8 * kMiB)) {
      meter.Start(At(ms), 8 * kMiB);
    }
    while (meter.bytes_in_flight() > 0) {
      meter.End(At(ms + 1), 8 * kMiB);
    }
  }

  // 16 MiB a millisecond, and more with the cap that follows from it.
  EXPECT_GE(meter.bytes_cap(), 32 * kMiB);
}

// An arrow that had little to do tells nothing of the drive.
TEST(ArrowMeterTest, AnIdleWindowChangesNothing) {
  ArrowMeter meter;
  for (std::int64_t ms = 1; ms < 1'000; ms += 10) {
    meter.Start(At(ms), kMiB);
    meter.End(At(ms + 5), kMiB);
  }

  EXPECT_EQ(meter.bytes_cap(), ArrowMeter::kBytesAtStart);
  EXPECT_EQ(meter.bytes_in_flight(), 0U);
}

TEST(TransferSchedulerTest, TheEarliestDeadlineComesFirstAndEqualOnesInOrder) {
  TransferScheduler scheduler(8);
  scheduler.Push(TransferClass::kDemand, 1, At(30));
  scheduler.Push(TransferClass::kDemand, 2, At(10));
  scheduler.Push(TransferClass::kDemand, 3, At(20));
  scheduler.Push(TransferClass::kDemand, 4, At(10));

  std::vector<std::uint32_t> order;
  while (!scheduler.is_empty(TransferClass::kDemand)) {
    order.push_back(scheduler.Front(TransferClass::kDemand));
    scheduler.Pop(TransferClass::kDemand);
  }

  EXPECT_EQ(order, (std::vector<std::uint32_t>{2, 4, 3, 1}));
}

TEST(TransferSchedulerTest, ATransferThatIsTakenOutLeavesTheOthersInOrder) {
  TransferScheduler scheduler(8);
  for (std::uint32_t transfer = 0; transfer < 6; ++transfer) {
    scheduler.Push(TransferClass::kPromotion, transfer, At(10 - std::int64_t{transfer}));
  }

  scheduler.Remove(TransferClass::kPromotion, 5);
  scheduler.Remove(TransferClass::kPromotion, 2);

  EXPECT_TRUE(scheduler.is_empty(TransferClass::kDemand));
  for (const std::uint32_t expected : {4U, 3U, 1U, 0U}) {
    EXPECT_EQ(scheduler.Front(TransferClass::kPromotion), expected);
    scheduler.Pop(TransferClass::kPromotion);
  }
}

}  // namespace
}  // namespace kvferry::engine
