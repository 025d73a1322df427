// Slots in device memory: counts, holds, and what breaks them.
#include "tiers/hbm/hbm_pool.h"

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;

constexpr std::array<HbmClass, 2> kClasses = {{{4096, 3}, {48, 5}}};

TEST(HbmPoolTest, GivesEachSlotOnceAndThenNone) {
  // Two owners of a slot would overwrite each other's blocks.
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto pool = Must(HbmPool::Create(gpu.device(), kClasses));

  std::vector<HbmSlot> slots;
  for (std::uint32_t i = 0; i < 5; ++i) {
    slots.push_back(Must(pool->Reserve(1)));
    EXPECT_EQ(pool->AddressOf(slots.back()),
              pool->BaseOf(1) + std::size_t{48} * slots.back().index);
    for (std::uint32_t j = 0; j < i; ++j) {
      EXPECT_NE(slots[j], slots[i]);
    }
  }

  EXPECT_STATUS(pool->Reserve(1), StatusCode::kResourceExhausted);
  EXPECT_OK(pool->Reserve(0));
  EXPECT_EQ(pool->usage(1).slots_reserved, 5U);
  pool->Free(slots[2]);
  EXPECT_EQ(Must(pool->Reserve(1)), slots[2]);
  EXPECT_OK(pool->CheckInvariants());
}

TEST(HbmPoolTest, AFreedSlotIsGivenAgainOnlyAfterItsLastHold) {
  // A copy that still reads the slot would read the next owner's bytes.
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto pool = Must(HbmPool::Create(gpu.device(), std::array<HbmClass, 1>{{{64, 1}}}));
  const HbmSlot slot = Must(pool->Reserve(0));
  const std::uint32_t generation = pool->GenerationOf(slot);
  pool->Hold(slot);
  pool->Hold(slot);

  pool->Free(slot);
  pool->Release(slot);
  EXPECT_STATUS(pool->Reserve(0), StatusCode::kResourceExhausted);
  EXPECT_FALSE(pool->IsCurrent(slot, generation));
  EXPECT_EQ(pool->usage(0).slots_draining, 1U);
  EXPECT_OK(pool->CheckInvariants());
  pool->Release(slot);

  EXPECT_EQ(Must(pool->Reserve(0)), slot);
  EXPECT_FALSE(pool->IsCurrent(slot, generation));
  EXPECT_TRUE(pool->IsCurrent(slot, generation + 1));
  EXPECT_OK(pool->CheckInvariants());
}

TEST(HbmPoolDeathTest, ABrokenCountStopsTheProcess) {
  // Going on would give one place to two blocks.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto pool = Must(HbmPool::Create(gpu.device(), kClasses));
  const HbmSlot slot = Must(pool->Reserve(0));

  EXPECT_DEATH(
      {
        pool->Free(slot);
        pool->Free(slot);
      },
      "kReserved");
  EXPECT_DEATH(pool->Release(slot), "holds > 0");
  EXPECT_DEATH(pool->Hold({0, 2}), "kReserved");
  EXPECT_DEATH(pool->Free({0, 3}), "slots.size");
  EXPECT_DEATH(pool->Free({2, 0}), "classes_.size");
}

TEST(HbmPoolTest, RefusesWhatItCannotBe) {
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto create = [&](HbmClass of) {
    return HbmPool::Create(gpu.device(), std::array<HbmClass, 1>{of}).status();
  };

  EXPECT_STATUS(HbmPool::Create(gpu.device(), {}), StatusCode::kInvalidArgument);
  EXPECT_STATUS(create({0, 1}), StatusCode::kInvalidArgument);
  EXPECT_STATUS(create({24, 1}), StatusCode::kInvalidArgument);
  EXPECT_STATUS(create({4096, 0}), StatusCode::kInvalidArgument);
  EXPECT_STATUS(create({std::uint64_t{1} << 60, 1U << 31}), StatusCode::kInvalidArgument);
}

TEST(HbmPoolTest, SaysHowMuchMemoryTheDeviceDoesNotHave) {
  // Out of memory is no fault: another size may do.
  SimGpu gpu(sim::CudaSchedule::kEager);

  const auto pool =
      HbmPool::Create(gpu.device(), std::array<HbmClass, 1>{{{std::uint64_t{1} << 20, 1 << 20}}});

  EXPECT_STATUS(pool, StatusCode::kResourceExhausted);
  EXPECT_NE(pool.error().message().find("1048576 slots of 1048576 bytes"), std::string_view::npos);
  EXPECT_OK(gpu.device().health());
}

TEST(HbmPoolTest, GivesNothingOnceTheDeviceIsLost) {
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto pool = Must(HbmPool::Create(gpu.device(), kClasses));
  const HbmSlot slot = Must(pool->Reserve(0));
  pool->Hold(slot);
  gpu.device().Check(cudaErrorIllegalAddress, "cudaEventQuery").IgnoreError();

  EXPECT_STATUS(pool->Reserve(0), StatusCode::kDeviceError);
  pool->Release(slot);
  pool->Free(slot);

  EXPECT_EQ(pool->usage(0).slots_reserved, 0U);
}

TEST(HbmPoolTest, CountsAsASimpleModelDoes) {
  // Random reservations, holds, releases and frees.
  Random random(7);
  SimGpu gpu(sim::CudaSchedule::kEager);
  const auto pool = Must(HbmPool::Create(gpu.device(), kClasses));
  struct Owned {
    HbmSlot slot;
    std::uint32_t holds = 0;
    bool is_freed = false;
  };
  std::vector<Owned> owned;
  for (int step = 0; step < 3000; ++step) {
    if (random.Chance(0.4)) {
      const auto slot = pool->Reserve(static_cast<std::uint32_t>(random.Below(2)));
      if (slot.ok()) {
        owned.push_back({*slot});
      }
    } else if (!owned.empty()) {
      const std::size_t at = random.Below(owned.size());
      Owned& one = owned[at];
      const std::uint64_t what = random.Below(3);
      if (what == 0 && !one.is_freed) {
        pool->Hold(one.slot);
        ++one.holds;
      } else if (what == 1 && one.holds > 0) {
        pool->Release(one.slot);
        --one.holds;
      } else if (what == 2 && !one.is_freed) {
        pool->Free(one.slot);
        one.is_freed = true;
      }
      if (one.is_freed && one.holds == 0) {
        owned.erase(owned.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    ASSERT_OK(pool->CheckInvariants());
    ASSERT_EQ(pool->usage(0).slots_reserved + pool->usage(1).slots_reserved, owned.size());
  }
  for (const Owned& one : owned) {
    for (std::uint32_t i = 0; i < one.holds; ++i) {
      pool->Release(one.slot);
    }
  }
}

}  // namespace
}  // namespace kvferry::tiers
