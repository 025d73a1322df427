// HbmScene: a simulated GPU with a pool, a server's tensors, host memory, and the moves between.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/caller_events.h"
#include "gpu/kernels/images.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"
#include "tiers/hbm/hbm_moves.h"

namespace kvferry::testing {

// Four layers of two planes; a block is two pages of the server's. Sizes are small: what is tested
// is order, not volume.
class HbmScene {
 public:
  static constexpr std::uint32_t kLayers = 4;
  static constexpr std::uint32_t kPlanes = 2 * kLayers;
  static constexpr std::uint32_t kPages = 24;
  static constexpr std::uint32_t kPageTokens = 2;
  static constexpr std::uint32_t kHeads = 2;
  static constexpr std::uint32_t kRowBytes = 16;
  static constexpr std::uint64_t kPlaneBytes = std::uint64_t{2} * kPageTokens * kHeads * kRowBytes;
  static constexpr std::uint64_t kBlockBytes = kPlanes * kPlaneBytes;
  static constexpr std::uint64_t kTensorBytes =
      std::uint64_t{kPages} * kPageTokens * kHeads * kRowBytes;
  static constexpr std::uint32_t kSlots = 12;

  explicit HbmScene(const sim::SimCudaOptions& sim, const tiers::HbmMovesOptions& options = {})
      : gpu_(sim),
        server_(Must(gpu::Stream::Create(gpu_.device(), gpu::StreamPriority::kLowest))),
        events_(Must(gpu::CallerEvents::Create(gpu_.device(), 16))),
        host_(Must(gpu::PinnedBuffer::Create(gpu_.device(), kSlots * kBlockBytes))),
        seen_(Must(gpu::PinnedBuffer::Create(gpu_.device(), kSlots * kBlockBytes))),
        tensor_memory_(Must(gpu::DeviceBuffer::Create(gpu_.device(), kPlanes * kTensorBytes))),
        pool_(Must(tiers::HbmPool::Create(
            gpu_.device(), std::array<tiers::HbmClass, 1>{{{kBlockBytes, kSlots}}}))),
        tensors_(Must(tiers::PagedTensors::Register(gpu_.device(), Described(PlanesOfAll())))),
        moves_(Must(tiers::HbmMoves::Create(gpu_.device(), pool_.get(), options))) {}
  explicit HbmScene(sim::CudaSchedule schedule, const tiers::HbmMovesOptions& options = {})
      : HbmScene(ScheduledAs(schedule), options) {}

  sim::SimCuda& cuda() { return gpu_.cuda(); }
  gpu::Device& device() { return gpu_.device(); }
  gpu::Stream& server() { return server_; }
  gpu::CallerEvents& events() { return *events_; }
  tiers::HbmPool& pool() { return *pool_; }
  tiers::PagedTensors& tensors() { return *tensors_; }
  tiers::HbmMoves& moves() { return *moves_; }
  // A block's place in pinned host memory, and where the server puts what it reads.
  std::byte* HostAt(std::uint32_t index) { return host_.bytes().data() + index * kBlockBytes; }
  std::byte* SeenAt(std::uint32_t index) { return seen_.bytes().data() + index * kBlockBytes; }

  // The byte that a plane of a block is full of.
  static unsigned char PatternOf(std::uint32_t value, std::uint32_t plane) {
    return static_cast<unsigned char>(value * 31 + plane * 7 + 1);
  }
  static void FillHost(std::byte* host, std::uint32_t value) {
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
      std::memset(host + plane * kPlaneBytes, PatternOf(value, plane), kPlaneBytes);
    }
  }
  static bool IsHost(const std::byte* host, std::uint32_t value) {
    for (std::uint64_t at = 0; at < kBlockBytes; ++at) {
      const auto plane = static_cast<std::uint32_t>(at / kPlaneBytes);
      if (host[at] != std::byte{PatternOf(value, plane)}) {
        return false;
      }
    }
    return true;
  }
  // The server computes a block in a slot.
  void Produce(tiers::HbmSlot slot, std::uint32_t value) {
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
      ASSERT_OK(server_.Fill(pool_->AddressOf(slot) + plane * kPlaneBytes, PatternOf(value, plane),
                             kPlaneBytes));
    }
  }
  // And in pages of its own: 2 * `place` and the one behind.
  void ProducePages(std::uint32_t place, std::uint32_t value) {
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
      ASSERT_OK(
          server_.Fill(PlaneAt(plane) + place * kPlaneBytes, PatternOf(value, plane), kPlaneBytes));
    }
  }
  // The server's kernel of one layer reads a block: what it has found is in SeenAt(index) later.
  void Use(tiers::HbmSlot slot, std::uint32_t layer, std::uint32_t index) {
    const std::uint64_t at = std::uint64_t{layer} * 2 * kPlaneBytes;
    ASSERT_OK(server_.Copy(SeenAt(index) + at, pool_->AddressOf(slot) + at, 2 * kPlaneBytes));
  }
  void UsePages(std::uint32_t place, std::uint32_t layer, std::uint32_t index) {
    for (const std::uint32_t plane : {layer * 2, layer * 2 + 1}) {
      ASSERT_OK(server_.Copy(SeenAt(index) + plane * kPlaneBytes,
                             PlaneAt(plane) + place * kPlaneBytes, kPlaneBytes));
    }
  }

  tiers::HbmBlock OfSlot(tiers::HbmSlot slot, std::byte* host) const {
    tiers::HbmBlock block;
    block.host = host;
    block.slot = slot;
    return block;
  }
  tiers::HbmBlock OfPages(std::uint32_t place, std::byte* host) const {
    tiers::HbmBlock block;
    block.host = host;
    block.paged.pages = std::span(kPageNumbers).subspan(std::size_t{2} * place, 2);
    return block;
  }
  tiers::HbmMove MoveOf(tiers::HbmArrow arrow, std::span<const tiers::HbmBlock> blocks) {
    tiers::HbmMove move;
    move.arrow = arrow;
    move.blocks = blocks;
    move.block_bytes = kBlockBytes;
    move.layers = kLayers;
    return move;
  }

  // Steps until a move ends; no end after very many steps is a failure.
  std::optional<tiers::HbmMoveEnd> RunToEnd() {
    for (int i = 0; i < 200000; ++i) {
      moves_->Step(now_);
      if (auto end = moves_->TakeEnd()) {
        return end;
      }
      std::this_thread::yield();
    }
    ADD_FAILURE() << "no move ends";
    return std::nullopt;
  }
  // The end of one move that is alone; its place is given back.
  Status Finish() {
    const auto end = RunToEnd();
    if (!end.has_value()) {
      return Status::Error(StatusCode::kInternal, "no end");
    }
    moves_->Forget(end->id);
    return end->status;
  }
  Instant now() const { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  static constexpr std::array<std::int32_t, kPages> kPageNumbers = [] {
    std::array<std::int32_t, kPages> numbers{};
    for (std::uint32_t i = 0; i < kPages; ++i) {
      numbers[i] = static_cast<std::int32_t>(i);
    }
    return numbers;
  }();

  std::byte* PlaneAt(std::uint32_t plane) { return tensor_memory_.data() + plane * kTensorBytes; }
  std::array<std::byte*, kPlanes> PlanesOfAll() {
    std::array<std::byte*, kPlanes> planes{};
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
      planes[plane] = PlaneAt(plane);
    }
    return planes;
  }
  static DeviceTensors Described(std::span<std::byte* const> planes) {
    DeviceTensors options;
    options.planes = planes;
    options.layers = kLayers;
    options.pages = kPages;
    options.page_tokens = kPageTokens;
    options.heads = kHeads;
    options.row_bytes = kRowBytes;
    options.block_tokens = 2 * kPageTokens;
    options.head_step_bytes = kRowBytes;
    options.token_step_bytes = std::uint64_t{kHeads} * kRowBytes;
    options.page_step_bytes = std::uint64_t{kPageTokens} * kHeads * kRowBytes;
    return options;
  }

  SimGpu gpu_;
  gpu::Stream server_;
  std::unique_ptr<gpu::CallerEvents> events_;
  gpu::PinnedBuffer host_;
  gpu::PinnedBuffer seen_;
  gpu::DeviceBuffer tensor_memory_;
  std::unique_ptr<tiers::HbmPool> pool_;
  std::unique_ptr<tiers::PagedTensors> tensors_;
  std::unique_ptr<tiers::HbmMoves> moves_;
  Instant now_ = Instant(std::chrono::hours(1));
};

}  // namespace kvferry::testing
