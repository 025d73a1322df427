// Host memory registered in the background, and what is not.
#include "tiers/hbm/host_registrar.h"

#include <string_view>

#include <gtest/gtest.h>

#include "tests/tiers/hbm/hbm_scene.h"

namespace kvferry::tiers {
namespace {

using kvferry::testing::HbmScene;
using kvferry::testing::Must;
using kvferry::testing::SimGpu;

constexpr std::uint64_t kPiece = HostRegistrar::kPieceAlignmentBytes;

HostRegistrarOptions Pieces() {
  HostRegistrarOptions options;
  options.piece_bytes = kPiece;
  return options;
}

TEST(HbmHostRegistrarTest, RegistersAllOfItPieceByPiece) {
  // Copies of registered memory need no buffer; a slot that lies in two pieces does.
  SimGpu gpu(sim::CudaSchedule::kEager);
  std::vector<std::byte> area(2 * kPiece + 4096);
  const auto registrar = Must(HostRegistrar::Start(gpu.device(), area, Pieces()));
  registrar->Wait();
  const std::span<const std::byte> all(area);

  EXPECT_OK(registrar->status());
  EXPECT_EQ(registrar->registered_bytes(), area.size());
  EXPECT_EQ(gpu.cuda().live().host_ranges, 3U);
  EXPECT_TRUE(registrar->IsPinned(all.first(kPiece)));
  EXPECT_TRUE(registrar->IsPinned(all.subspan(kPiece, 4096)));
  EXPECT_TRUE(registrar->IsPinned(all.last(4096)));
  EXPECT_FALSE(registrar->IsPinned(all.subspan(kPiece - 4096, 8192)));
  EXPECT_FALSE(registrar->IsPinned(all.first(0)));
  std::vector<std::byte> other(64);
  EXPECT_FALSE(registrar->IsPinned(other));
}

TEST(HbmHostRegistrarTest, WhatIsRefusedIsSaidAndCopiedByBuffers) {
  // A limit on locked memory costs bandwidth, nothing else.
  std::vector<std::byte> area(3 * kPiece);
  HostRegistrar* known = nullptr;
  HbmMovesOptions options;
  options.is_pinned = [&known](std::span<const std::byte> bytes) {
    return known->IsPinned(bytes);
  };
  HbmScene scene(sim::CudaSchedule::kLazy, options);
  scene.cuda().FailCall("cudaHostRegister", 2, cudaErrorMemoryAllocation);
  const auto registrar = Must(HostRegistrar::Start(scene.device(), area, Pieces()));
  known = registrar.get();
  registrar->Wait();

  EXPECT_EQ(registrar->registered_bytes(), kPiece);
  EXPECT_STATUS(registrar->status(), StatusCode::kResourceExhausted);
  EXPECT_NE(registrar->status().message().find("4194304 of 6291456 bytes"), std::string_view::npos);
  const std::vector<HbmBlock> blocks = {
      scene.OfSlot(Must(scene.pool().Reserve(0)), area.data()),
      scene.OfSlot(Must(scene.pool().Reserve(0)), area.data() + 2 * kPiece)};
  for (std::uint32_t i = 0; i < 2; ++i) {
    HbmScene::FillHost(blocks[i].host, 5 + i);
    ASSERT_OK(
        scene.moves().Submit(scene.MoveOf(HbmArrow::kOnboard, std::span(blocks).subspan(i, 1))));
    ASSERT_OK(scene.Finish());
    std::memset(blocks[i].host, 0, HbmScene::kBlockBytes);
    ASSERT_OK(
        scene.moves().Submit(scene.MoveOf(HbmArrow::kOffload, std::span(blocks).subspan(i, 1))));
    ASSERT_OK(scene.Finish());
    EXPECT_TRUE(HbmScene::IsHost(blocks[i].host, 5 + i)) << i;
  }
  EXPECT_EQ(scene.moves().counts().staged_bytes, 2 * HbmScene::kBlockBytes);
  EXPECT_EQ(scene.cuda().counts().pageable_copies, 0U);
}

TEST(HbmHostRegistrarTest, RefusesPiecesThatCannotBe) {
  SimGpu gpu(sim::CudaSchedule::kEager);
  std::vector<std::byte> area(4096);
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, kPiece + 4096, HostRegistrar::kPieceBytesMax + kPiece}) {
    HostRegistrarOptions options;
    options.piece_bytes = bytes;
    EXPECT_STATUS(HostRegistrar::Start(gpu.device(), area, options), StatusCode::kInvalidArgument);
  }
}

TEST(HbmHostRegistrarTest, LeavesAServersCaptureAlone) {
  // Registering in another thread's usual mode would break a capture in global mode.
  SimGpu gpu(sim::CudaSchedule::kEager);
  gpu::Stream graph = Must(gpu::Stream::Create(gpu.device(), gpu::StreamPriority::kLowest));
  std::vector<std::byte> area(2 * kPiece);
  ASSERT_TRUE(gpu.cuda().BeginCapture(graph.native(), cudaStreamCaptureModeGlobal));

  const auto registrar = Must(HostRegistrar::Start(gpu.device(), area, Pieces()));
  registrar->Wait();

  EXPECT_TRUE(gpu.cuda().EndCapture(graph.native()));
  EXPECT_OK(registrar->status());
}

}  // namespace
}  // namespace kvferry::tiers
