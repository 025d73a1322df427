// Moves on each schedule: right bytes, one end each, whatever fails.
#include "tiers/hbm/hbm_moves.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tiers/hbm/hbm_scene.h"

namespace kvferry::tiers {
namespace {

using kvferry::testing::HbmScene;
using kvferry::testing::Must;
using std::chrono::milliseconds;

class HbmMovesTest : public ::testing::TestWithParam<sim::CudaSchedule> {};

INSTANTIATE_TEST_SUITE_P(AllSchedules,
                         HbmMovesTest,
                         kvferry::testing::EachSchedule(),
                         kvferry::testing::NameOfSchedule);

TEST_P(HbmMovesTest, OffloadsWhatTheProducerHadQueued) {
  // Without the producer's event the copy reads what was there before.
  HbmScene scene(GetParam());
  std::vector<HbmBlock> blocks;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const HbmSlot slot = Must(scene.pool().Reserve(0));
    scene.Produce(slot, 10 + i);
    blocks.push_back(scene.OfSlot(slot, scene.HostAt(i)));
  }
  HbmMove move = scene.MoveOf(HbmArrow::kOffload, blocks);
  move.after = Must(scene.events().Record(scene.server().native()));
  ASSERT_OK(scene.moves().Submit(std::move(move)));

  ASSERT_OK(scene.Finish());

  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(HbmScene::IsHost(scene.HostAt(i), 10 + i)) << i;
  }
  EXPECT_EQ(scene.cuda().counts().pageable_copies, 0U);
  EXPECT_EQ(scene.moves().counts().bytes[0], 3 * HbmScene::kBlockBytes);
}

TEST_P(HbmMovesTest, ALayerCanBeUsedOnceItIsWaitedFor) {
  // The server's stream must not start a layer before its copies, and need not wait for the others.
  HbmScene scene(GetParam());
  std::vector<HbmBlock> blocks;
  for (std::uint32_t i = 0; i < 3; ++i) {
    HbmScene::FillHost(scene.HostAt(i), 20 + i);
    blocks.push_back(scene.OfSlot(Must(scene.pool().Reserve(0)), scene.HostAt(i)));
    scene.Produce(blocks[i].slot, 99);  // Whoever had the place before.
  }
  HbmMove move = scene.MoveOf(HbmArrow::kOnboard, blocks);
  move.layers_a_slice = 1;
  move.after = Must(scene.events().Record(scene.server().native()));
  const HbmMoveId id = Must(scene.moves().Submit(std::move(move)));
  EXPECT_STATUS(scene.moves().WaitLayer(id, 0, scene.server().native()), StatusCode::kUnavailable);

  scene.moves().Step(scene.now());
  for (std::uint32_t layer = 0; layer < HbmScene::kLayers; ++layer) {
    ASSERT_OK(scene.moves().WaitLayer(id, layer, scene.server().native()));
    for (std::uint32_t i = 0; i < 3; ++i) {
      scene.Use(blocks[i].slot, layer, i);
    }
  }
  ASSERT_OK(scene.server().Synchronize());

  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(HbmScene::IsHost(scene.SeenAt(i), 20 + i)) << i;
  }
  const auto end = scene.RunToEnd();
  ASSERT_TRUE(end.has_value());
  EXPECT_OK(end->status);
  EXPECT_OK(scene.moves().WaitLayer(id, 3, scene.server().native()));
  scene.moves().Forget(id);
  EXPECT_STATUS(scene.moves().WaitLayer(id, 3, scene.server().native()),
                StatusCode::kInvalidArgument);
}

TEST_P(HbmMovesTest, PagesAreCopiedByRunsAndByKernels) {
  // Both ways, the host has [plane][token][head][row], and the server has its pages back.
  for (const bool has_kernels : {false, true}) {
    HbmMovesOptions options;
    options.kernels = has_kernels ? &gpu::HostKernels() : nullptr;
    options.thresholds.single_count_max = 1;
    HbmScene scene(GetParam(), options);
    std::vector<HbmBlock> down;
    std::vector<HbmBlock> up;
    for (std::uint32_t i = 0; i < 4; ++i) {
      scene.ProducePages(i, 30 + i);
      down.push_back(scene.OfPages(i, scene.HostAt(i)));
      up.push_back(scene.OfPages(11 - i, scene.HostAt(i)));
    }
    HbmMove move = scene.MoveOf(HbmArrow::kOffload, down);
    move.tensors = &scene.tensors();
    move.after = Must(scene.events().Record(scene.server().native()));
    ASSERT_OK(scene.moves().Submit(std::move(move)));
    EXPECT_TRUE(scene.tensors().is_in_use());
    ASSERT_OK(scene.Finish());
    for (std::uint32_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(HbmScene::IsHost(scene.HostAt(i), 30 + i)) << i << has_kernels;
    }

    move = scene.MoveOf(HbmArrow::kOnboard, up);
    move.tensors = &scene.tensors();
    move.layers_a_slice = 3;  // The last slice is shorter.
    const HbmMoveId id = Must(scene.moves().Submit(std::move(move)));
    scene.moves().Step(scene.now());
    for (std::uint32_t layer = 0; layer < HbmScene::kLayers; ++layer) {
      ASSERT_OK(scene.moves().WaitLayer(id, layer, scene.server().native()));
      for (std::uint32_t i = 0; i < 4; ++i) {
        scene.UsePages(11 - i, layer, i);
      }
    }
    ASSERT_OK(scene.server().Synchronize());
    for (std::uint32_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(HbmScene::IsHost(scene.SeenAt(i), 30 + i)) << i << has_kernels;
    }
    ASSERT_OK(scene.Finish());
    EXPECT_FALSE(scene.tensors().is_in_use());
    EXPECT_EQ(scene.cuda().counts().launches, has_kernels ? 3U : 0U);
    EXPECT_EQ(scene.cuda().kernel_failure(), "");
  }
}

TEST_P(HbmMovesTest, MemoryThatIsNotPinnedGoesThroughBuffers) {
  // A copy of pageable memory blocks the mover inside the runtime.
  HbmMovesOptions options;
  options.is_pinned = [](std::span<const std::byte> /*bytes*/) {
    return false;
  };
  options.part_bytes = 2 * HbmScene::kBlockBytes;
  options.staging_parts = 2;
  HbmScene scene(GetParam(), options);
  std::vector<std::byte> pageable(5 * HbmScene::kBlockBytes);
  std::vector<HbmBlock> blocks;
  for (std::uint32_t i = 0; i < 5; ++i) {
    blocks.push_back(
        scene.OfSlot(Must(scene.pool().Reserve(0)), pageable.data() + i * HbmScene::kBlockBytes));
    HbmScene::FillHost(blocks[i].host, 40 + i);
  }
  ASSERT_OK(scene.moves().Submit(scene.MoveOf(HbmArrow::kOnboard, blocks)));
  ASSERT_OK(scene.Finish());
  std::fill(pageable.begin(), pageable.end(), std::byte{0});
  ASSERT_OK(scene.moves().Submit(scene.MoveOf(HbmArrow::kOffload, blocks)));
  ASSERT_OK(scene.Finish());

  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(HbmScene::IsHost(blocks[i].host, 40 + i)) << i;
  }
  EXPECT_EQ(scene.cuda().counts().pageable_copies, 0U);
  EXPECT_EQ(scene.moves().counts().staged_bytes, 10 * HbmScene::kBlockBytes);
}

TEST_P(HbmMovesTest, ASlotIsHeldUntilItsMoveEnds) {
  // Freed and given to the next block while its copy reads it, its bytes would be torn.
  HbmScene scene(GetParam());
  std::vector<HbmBlock> blocks;
  for (std::uint32_t i = 0; i < HbmScene::kSlots; ++i) {
    blocks.push_back(scene.OfSlot(Must(scene.pool().Reserve(0)), scene.HostAt(i)));
  }
  ASSERT_OK(scene.moves().Submit(scene.MoveOf(HbmArrow::kOffload, blocks)));
  for (const HbmBlock& block : blocks) {
    scene.pool().Free(block.slot);
  }

  EXPECT_STATUS(scene.pool().Reserve(0), StatusCode::kResourceExhausted);
  ASSERT_OK(scene.Finish());

  EXPECT_OK(scene.pool().Reserve(0));
  EXPECT_OK(scene.pool().CheckInvariants());
}

TEST(HbmMovesOrderTest, KeepsToItsBytesInFlightAndToUrgency) {
  // A flood of write-back must not be in the way of what a request waits for.
  HbmMovesOptions options;
  options.part_bytes = HbmScene::kBlockBytes;
  options.in_flight_bytes_max = 2 * HbmScene::kBlockBytes;
  HbmScene scene(sim::CudaSchedule::kLazy, options);
  std::vector<HbmBlock> blocks;
  for (std::uint32_t i = 0; i < 4; ++i) {
    blocks.push_back(scene.OfSlot(Must(scene.pool().Reserve(0)), scene.HostAt(i)));
  }
  const auto submit = [&](HbmUrgency urgency, Duration deadline, std::uint64_t tag) {
    HbmMove move = scene.MoveOf(HbmArrow::kOnboard, blocks);
    move.urgency = urgency;
    move.deadline = scene.now() + deadline;
    move.tag = tag;
    ASSERT_OK(scene.moves().Submit(std::move(move)));
  };
  submit(HbmUrgency::kPrefetch, milliseconds(1), 4);
  submit(HbmUrgency::kDemand, milliseconds(9), 2);
  submit(HbmUrgency::kDemand, milliseconds(9), 3);
  submit(HbmUrgency::kDemand, milliseconds(5), 1);

  std::vector<std::uint64_t> order;
  while (scene.moves().unfinished() > 0) {
    scene.moves().Step(scene.now());
    EXPECT_LE(scene.moves().bytes_in_flight(HbmArrow::kOnboard), 2 * HbmScene::kBlockBytes);
    while (const auto end = scene.moves().TakeEnd()) {
      EXPECT_OK(end->status);
      order.push_back(end->tag);
    }
  }

  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(scene.moves().bytes_in_flight(HbmArrow::kOnboard), 0U);
}

TEST(HbmMovesOrderTest, WhatHasNotBegunInTimeEnds) {
  HbmMovesOptions options;
  options.parts_max = 1;
  HbmScene scene(sim::CudaSchedule::kLazy, options);
  const std::vector<HbmBlock> blocks = {
      scene.OfSlot(Must(scene.pool().Reserve(0)), scene.HostAt(0))};
  ASSERT_OK(scene.moves().Submit(scene.MoveOf(HbmArrow::kOffload, blocks)));
  scene.moves().Step(scene.now());
  HbmMove late = scene.MoveOf(HbmArrow::kOnboard, blocks);
  late.deadline = scene.now() + milliseconds(1);
  const HbmMoveId id = Must(scene.moves().Submit(std::move(late)));
  scene.Advance(milliseconds(2));

  std::vector<StatusCode> codes;
  while (scene.moves().unfinished() > 0) {
    codes.push_back(scene.RunToEnd()->status.code());
  }

  // The first one began, so that only it may take what time it needs.
  EXPECT_EQ(std::count(codes.begin(), codes.end(), StatusCode::kOk), 1);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), StatusCode::kDeadlineExceeded), 1);
  EXPECT_STATUS(scene.moves().WaitLayer(id, 0, scene.server().native()),
                StatusCode::kDeadlineExceeded);
}

TEST(HbmMovesOrderTest, AWithdrawnMoveEndsOnceAndOnlyBehindItsCopies) {
  HbmMovesOptions options;
  options.part_bytes = HbmScene::kBlockBytes;
  options.parts_max = 2;
  HbmScene scene(sim::CudaSchedule::kLazy, options);
  std::vector<HbmBlock> blocks;
  for (std::uint32_t i = 0; i < 4; ++i) {
    blocks.push_back(scene.OfSlot(Must(scene.pool().Reserve(0)), scene.HostAt(i)));
  }
  const HbmMoveId begun = Must(scene.moves().Submit(scene.MoveOf(HbmArrow::kOffload, blocks)));
  scene.moves().Step(scene.now());
  const HbmMoveId queued = Must(scene.moves().Submit(scene.MoveOf(HbmArrow::kOffload, blocks)));

  scene.moves().Cancel(queued);
  scene.moves().Cancel(begun);
  EXPECT_EQ(scene.moves().TakeEnd()->id, queued);
  EXPECT_FALSE(scene.moves().TakeEnd().has_value());
  EXPECT_GT(scene.moves().bytes_in_flight(HbmArrow::kOffload), 0U);
  const auto end = scene.RunToEnd();

  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->id, begun);
  EXPECT_STATUS(end->status, StatusCode::kCancelled);
  EXPECT_EQ(scene.moves().bytes_in_flight(HbmArrow::kOffload), 0U);
  scene.moves().Cancel(begun);  // Ended already: nothing.
  EXPECT_FALSE(scene.moves().TakeEnd().has_value());
}

TEST(HbmMovesOrderTest, RefusesWhatItCannotMove) {
  // Nothing of a refused move may stay behind: no hold, no place.
  HbmMovesOptions options;
  options.moves_max = 1;
  options.blocks_max = 2;
  options.slices_max = 2;
  options.part_bytes = HbmScene::kBlockBytes / 2;
  HbmScene scene(sim::CudaSchedule::kEager, options);
  const HbmSlot slot = Must(scene.pool().Reserve(0));
  const std::vector<HbmBlock> blocks(3, scene.OfSlot(slot, scene.HostAt(0)));
  const auto refuse = [&](auto change) {
    HbmMove move = scene.MoveOf(HbmArrow::kOffload, std::span(blocks).first(1));
    move.layers_a_slice = 2;
    change(move);
    EXPECT_STATUS(scene.moves().Submit(std::move(move)), StatusCode::kInvalidArgument);
  };
  HbmBlock homeless = blocks[0];
  homeless.host = nullptr;
  HbmBlock elsewhere = blocks[0];
  elsewhere.slot.class_index = 1;

  refuse([](HbmMove& move) { move.blocks = {}; });
  refuse([&](HbmMove& move) { move.blocks = blocks; });
  refuse([](HbmMove& move) { move.layers_a_slice = 1; });
  refuse([](HbmMove& move) { move.layers_a_slice = 0; });
  refuse([](HbmMove& move) { move.layers = 5; });
  refuse([](HbmMove& move) { move.block_bytes = 0; });
  refuse([](HbmMove& move) { move.block_bytes *= 2; });
  refuse([&](HbmMove& move) { move.blocks = {&homeless, 1}; });
  refuse([&](HbmMove& move) { move.blocks = {&elsewhere, 1}; });
  refuse([&](HbmMove& move) { move.tensors = &scene.tensors(); });  // No pages are named.
  EXPECT_EQ(scene.moves().unfinished(), 0U);

  HbmMove right = scene.MoveOf(HbmArrow::kOffload, std::span(blocks).first(1));
  right.layers_a_slice = 2;
  ASSERT_OK(scene.moves().Submit(std::move(right)));
  right = scene.MoveOf(HbmArrow::kOffload, std::span(blocks).first(1));
  right.layers_a_slice = 2;
  EXPECT_STATUS(scene.moves().Submit(std::move(right)), StatusCode::kResourceExhausted);
  EXPECT_OK(scene.Finish());
  scene.pool().Free(slot);
  EXPECT_EQ(scene.pool().usage(0).slots_reserved, 0U);
}

}  // namespace
}  // namespace kvferry::tiers
