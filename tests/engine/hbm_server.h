// HbmServer: a simulated GPU with a server's tensors and stream, and an engine attached to it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/completion_queue.h"
#include "engine/engine_front.h"
#include "gpu/kernels/images.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::testing {

// Four layers of two planes; a block is two pages. Block `number` has the key KeyOf(number), and in
// each plane one byte that tells both. For one thread, which is the server's.
class HbmServer {
 public:
  static constexpr std::uint32_t kLayers = 4;
  static constexpr std::uint32_t kPlanes = 2 * kLayers;
  static constexpr std::uint32_t kPlaces = 24;  // Of two pages each.
  static constexpr std::uint32_t kPlaneBytes = 2048;
  static constexpr std::uint32_t kBlockBytes = kPlanes * kPlaneBytes;
  static constexpr std::uint64_t kTensorBytes = std::uint64_t{kPlaces} * kPlaneBytes;

  static EngineOptions Options() {
    EngineOptions options;
    options.host.bytes = 4 << 20;
    options.host.is_populated = false;
    options.block_bytes = kBlockBytes;
    options.copy_threads = 1;
    options.requests_max = 32;
    options.hbm.mode = HbmMode::kAttached;
    return options;
  }

  explicit HbmServer(const sim::SimCudaOptions& sim,
                     const EngineOptions& options = Options(),
                     bool has_kernels = false)
      : gpu_(sim),
        stream_(Must(gpu::Stream::Create(gpu_.device(), gpu::StreamPriority::kLowest))),
        memory_(Must(gpu::DeviceBuffer::Create(gpu_.device(), kPlanes * kTensorBytes))),
        seen_(Must(gpu::PinnedBuffer::Create(gpu_.device(), std::uint64_t{kPlaces} * kBlockBytes))),
        options_(options),
        has_kernels_(has_kernels) {
    OpenEngine();
  }
  explicit HbmServer(sim::CudaSchedule schedule) : HbmServer(ScheduledAs(schedule)) {}
  HbmServer(const HbmServer&) = delete;
  HbmServer& operator=(const HbmServer&) = delete;
  ~HbmServer() { CloseEngine(); }

  void OpenEngine() {
    const void* const kernels = has_kernels_ ? &gpu::HostKernels() : nullptr;
    engine_ =
        Must(engine::EngineFront::Open(options_, {.cuda = &gpu_.cuda().api(), .kernels = kernels}));
    queue_ = Must(engine_->CreateCompletionQueue(64));
    space_ = Must(engine_->AddNamespace(NamespaceOf("model"), {.block_bytes = kBlockBytes}));
    tensors_ = Must(engine_->RegisterTensors(Described()));
  }
  void CloseEngine() {
    if (engine_ != nullptr) {
      EXPECT_OK(engine_->Close());
      queue_.reset();
      engine_.reset();
    }
  }

  sim::SimCuda& cuda() { return gpu_.cuda(); }
  engine::EngineFront& engine() { return *engine_; }
  CompletionQueue& queue() { return *queue_; }
  gpu::Stream& stream() { return stream_; }
  NamespaceHandle space() const { return space_; }
  TensorsHandle tensors() const { return tensors_; }

  DeviceTensors Described() {
    planes_.clear();
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
      planes_.push_back(PlaneAt(plane));
    }
    DeviceTensors described;
    described.planes = planes_;
    described.layers = kLayers;
    described.page_step_bytes = kPlaneBytes / 2;
    described.token_step_bytes = 256;
    described.head_step_bytes = 128;
    described.pages = 2 * kPlaces;
    described.page_tokens = 4;
    described.heads = 2;
    described.row_bytes = 128;
    described.block_tokens = 8;
    return described;
  }
  static DeviceBlock At(std::uint32_t place) {
    return {.pages = std::span(kPageNumbers).subspan(std::size_t{2} * place, 2)};
  }
  static std::vector<DeviceBlock> PlacesFrom(std::uint32_t first, std::uint32_t count) {
    std::vector<DeviceBlock> places;
    for (std::uint32_t place = first; place < first + count; ++place) {
      places.push_back(At(place));
    }
    return places;
  }
  static unsigned char PatternOf(std::uint32_t number, std::uint32_t plane) {
    return static_cast<unsigned char>(number * 31 + plane * 7 + 1);
  }
  static bool IsBlock(std::span<const std::byte> bytes, std::uint32_t number) {
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      if (bytes[at] != std::byte{PatternOf(number, static_cast<std::uint32_t>(at / kPlaneBytes))}) {
        return false;
      }
    }
    return true;
  }

  // The server computes a block in a place; only queued.
  void Produce(std::uint32_t place, std::uint32_t number) {
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
      ASSERT_OK(stream_.Fill(PlaneAt(plane) + std::uint64_t{place} * kPlaneBytes,
                             PatternOf(number, plane), kPlaneBytes));
    }
  }
  // Its kernel of a layer reads a place; what it has found is in Seen(place) later.
  void Use(std::uint32_t place, std::uint32_t layer) {
    for (const std::uint32_t plane : {2 * layer, 2 * layer + 1}) {
      ASSERT_OK(stream_.Copy(SeenAt(place) + std::uint64_t{plane} * kPlaneBytes,
                             PlaneAt(plane) + std::uint64_t{place} * kPlaneBytes, kPlaneBytes));
    }
  }
  void UseAll(std::uint32_t place) {
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      Use(place, layer);
    }
  }
  std::span<const std::byte> Seen(std::uint32_t place) { return {SeenAt(place), kBlockBytes}; }

  Result<Ticket> Put(std::span<const BlockKey> keys,
                     std::span<const DeviceBlock> blocks,
                     Instant deadline = {}) {
    return engine_->PutFromDevice({.in = space_,
                                   .keys = keys,
                                   .tensors = tensors_,
                                   .blocks = blocks,
                                   .producer = stream_.native(),
                                   .options = {.deadline = deadline}},
                                  *queue_);
  }
  Result<Ticket> Get(std::span<const BlockKey> keys,
                     std::span<const DeviceBlock> blocks,
                     Instant deadline = {}) {
    return engine_->GetToDevice({.in = space_,
                                 .keys = keys,
                                 .tensors = tensors_,
                                 .blocks = blocks,
                                 .last_user = stream_.native(),
                                 .options = {.deadline = deadline}},
                                *queue_);
  }
  Completion Await() {
    EXPECT_OK(queue_->Wait(Clock::now() + std::chrono::seconds(60)));
    std::array<Completion, 1> ended;
    EXPECT_EQ(queue_->Poll(ended), 1U);
    return ended[0];
  }
  Completion Await(const Result<Ticket>& ticket) {
    EXPECT_OK(ticket);
    return ticket.ok() ? Await() : Completion();
  }
  // Until the layer can be waited for.
  Status AwaitLayer(Ticket ticket, std::uint32_t layer) {
    const Instant give_up_at = Clock::now() + std::chrono::seconds(60);
    while (true) {
      Status status = engine_->WaitLayer(ticket, layer, stream_.native());
      if (status.code() != StatusCode::kUnavailable || Clock::now() > give_up_at) {
        return status;
      }
      std::this_thread::yield();
    }
  }
  // Puts blocks number `first` and so on from places 0, 1, ...
  void PutBlocks(std::uint32_t first, std::uint32_t count) {
    std::vector<DeviceBlock> blocks;
    for (std::uint32_t i = 0; i < count; ++i) {
      Produce(i, first + i);
      blocks.push_back(At(i));
    }
    const std::vector<BlockKey> keys = KeysOf(first, count);
    const Completion done = Await(Put(keys, blocks));
    EXPECT_OK(done.status);
    EXPECT_EQ(done.blocks_ready, count);
  }

 private:
  static constexpr auto kPageNumbers = [] {
    std::array<std::int32_t, std::size_t{2} * kPlaces> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<std::int32_t>(i);
    }
    return numbers;
  }();

  std::byte* PlaneAt(std::uint32_t plane) { return memory_.data() + plane * kTensorBytes; }
  std::byte* SeenAt(std::uint32_t place) {
    return seen_.bytes().data() + std::uint64_t{place} * kBlockBytes;
  }

  SimGpu gpu_;
  gpu::Stream stream_;
  gpu::DeviceBuffer memory_;
  gpu::PinnedBuffer seen_;
  EngineOptions options_;
  bool has_kernels_;
  std::vector<std::byte*> planes_;
  std::shared_ptr<engine::EngineFront> engine_;
  std::unique_ptr<CompletionQueue> queue_;
  NamespaceHandle space_;
  TensorsHandle tensors_;
};

}  // namespace kvferry::testing
