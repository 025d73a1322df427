// Moves when the runtime's calls fail, the device is lost, or a server captures a graph.
#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tiers/hbm/hbm_scene.h"

namespace kvferry::tiers {
namespace {

using kvferry::testing::HbmScene;
using kvferry::testing::Must;
using kvferry::testing::ScheduledAs;

constexpr std::uint32_t kMoves = 6;

// Six moves of two blocks, down and up, of slots and pages; counts their ends and looks at the
// bytes of those that ended well.
class Traffic {
 public:
  explicit Traffic(HbmScene& scene) : scene_(scene) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      slots_.push_back(Must(scene.pool().Reserve(0)));
      scene.Produce(slots_[i], 50 + i);
      scene.ProducePages(i, 60 + i);
    }
    for (std::uint32_t i = 8; i < 12; ++i) {
      HbmScene::FillHost(scene.HostAt(i), 70 + i);
    }
  }

  void Submit() {
    SubmitSlots(HbmArrow::kOffload, 0, 0);
    SubmitPages(HbmArrow::kOffload, 0, 2);
    SubmitSlots(HbmArrow::kOnboard, 2, 8);
    SubmitPages(HbmArrow::kOnboard, 4, 10);
    SubmitSlots(HbmArrow::kOffload, 0, 4);
    SubmitPages(HbmArrow::kOffload, 2, 6);
  }
  // Until all have ended; each once.
  void Run() {
    while (scene_.moves().unfinished() > 0) {
      const auto end = scene_.RunToEnd();
      ASSERT_TRUE(end.has_value());
      Note(*end);
    }
    while (const auto end = scene_.moves().TakeEnd()) {
      Note(*end);
    }
    for (const auto& [tag, count] : end_counts_) {
      EXPECT_EQ(count, 1) << "ends of move " << tag;
    }
    EXPECT_EQ(end_counts_.size() + refused_, kMoves);
  }

  void ExpectRightBytes() {
    const std::map<std::uint64_t, std::array<std::uint32_t, 2>> downs = {
        {0, {0, 50}}, {1, {2, 60}}, {4, {4, 50}}, {5, {6, 62}}};
    for (const auto& [tag, what] : downs) {
      for (std::uint32_t i = 0; ends_.contains(tag) && ends_[tag].status.ok() && i < 2; ++i) {
        EXPECT_TRUE(HbmScene::IsHost(scene_.HostAt(what[0] + i), what[1] + i)) << tag;
      }
    }
  }
  std::map<std::uint64_t, HbmMoveEnd>& ends() { return ends_; }
  std::uint32_t refused() const { return refused_; }

 private:
  void Submit(HbmMove move, bool has_after) {
    move.tag = tag_++;
    if (has_after) {
      auto after = scene_.events().Record(scene_.server().native());
      if (!after.ok()) {
        ++refused_;
        return;
      }
      move.after = std::move(*after);
    }
    refused_ += scene_.moves().Submit(std::move(move)).ok() ? 0U : 1U;
  }
  void SubmitSlots(HbmArrow arrow, std::uint32_t slot, std::uint32_t host) {
    const std::array<HbmBlock, 2> blocks = {
        scene_.OfSlot(slots_[slot], scene_.HostAt(host)),
        scene_.OfSlot(slots_[slot + 1], scene_.HostAt(host + 1))};
    HbmMove move = scene_.MoveOf(arrow, blocks);
    move.layers_a_slice = 2;
    Submit(std::move(move), true);
  }
  void SubmitPages(HbmArrow arrow, std::uint32_t place, std::uint32_t host) {
    const std::array<HbmBlock, 2> blocks = {scene_.OfPages(place, scene_.HostAt(host)),
                                            scene_.OfPages(place + 1, scene_.HostAt(host + 1))};
    HbmMove move = scene_.MoveOf(arrow, blocks);
    move.tensors = &scene_.tensors();
    Submit(std::move(move), true);
  }
  void Note(const HbmMoveEnd& end) {
    ++end_counts_[end.tag];
    ends_[end.tag] = end;
    scene_.moves().Forget(end.id);
  }

  HbmScene& scene_;
  std::vector<HbmSlot> slots_;
  std::map<std::uint64_t, int> end_counts_;
  std::map<std::uint64_t, HbmMoveEnd> ends_;
  std::uint64_t tag_ = 0;
  std::uint32_t refused_ = 0;
};

HbmMovesOptions WithKernels() {
  HbmMovesOptions options;
  options.kernels = &gpu::HostKernels();
  options.thresholds.single_count_max = 1;
  options.part_bytes = HbmScene::kBlockBytes;
  options.parts_max = 3;
  return options;
}

// How many of the moves that were taken failed.
std::uint32_t CountFailed(Traffic& traffic) {
  std::uint32_t errors = 0;
  for (const auto& [tag, end] : traffic.ends()) {
    EXPECT_FALSE(end.is_host_in_doubt);
    if (!end.status.ok()) {
      EXPECT_STATUS(end.status, StatusCode::kResourceExhausted);
      ++errors;
    }
  }
  return errors;
}

// The nth call fails for a passing reason; gives the number of moves that failed by it.
std::uint32_t RunWithFailedCall(const char* call, std::uint32_t nth) {
  HbmScene scene(nth % 2 == 0 ? sim::CudaSchedule::kEager : sim::CudaSchedule::kLazy,
                 WithKernels());
  Traffic traffic(scene);
  scene.cuda().FailCall(call, nth, cudaErrorMemoryAllocation);

  traffic.Submit();
  traffic.Run();

  const std::uint32_t failed = CountFailed(traffic);
  EXPECT_LE(failed + traffic.refused(), 1U) << call << ' ' << nth;
  traffic.ExpectRightBytes();
  EXPECT_OK(scene.device().health());
  EXPECT_EQ(scene.moves().bytes_in_flight(HbmArrow::kOffload), 0U);
  EXPECT_EQ(scene.moves().bytes_in_flight(HbmArrow::kOnboard), 0U);
  Traffic again(scene);
  again.Submit();
  again.Run();
  again.ExpectRightBytes();
  return failed;
}

TEST(HbmEachFaultTest, AFailedCallEndsItsMoveAndNoOther) {
  // Each call in turn, with an error that passes: one end each, right bytes, and on it goes.
  const auto count = [](const char* call) {
    std::uint32_t failed = 0;
    for (std::uint32_t nth = 1; nth <= 12; ++nth) {
      failed += RunWithFailedCall(call, nth);
    }
    return failed;
  };

  EXPECT_GT(count("cudaMemcpyAsync"), 0U);
  EXPECT_GT(count("cudaMemcpyBatchAsync"), 0U);
  EXPECT_GT(count("cudaLaunchKernel"), 0U);
  EXPECT_GT(count("cudaStreamWaitEvent"), 0U);
  // These are done again; where they are the caller's own, its move was not submitted.
  EXPECT_EQ(count("cudaEventRecord"), 0U);
  EXPECT_EQ(count("cudaEventQuery"), 0U);
}

// Whether an end said that the host's memory is in doubt.
bool NoteLosses(Traffic& traffic) {
  bool is_in_doubt = false;
  for (const auto& [tag, end] : traffic.ends()) {
    if (!end.status.ok()) {
      EXPECT_STATUS(end.status, StatusCode::kDeviceError);
      EXPECT_EQ(end.status.native_code(), static_cast<int>(cudaErrorIllegalAddress));
      is_in_doubt = is_in_doubt || end.is_host_in_doubt;
    }
  }
  return is_in_doubt;
}

bool RunWithLostDevice(std::uint32_t nth) {
  auto sim = ScheduledAs(nth % 2 == 0 ? sim::CudaSchedule::kEager : sim::CudaSchedule::kRandom);
  sim.seed = nth;
  HbmScene scene(sim, WithKernels());
  Traffic traffic(scene);
  const HbmSlot spare = Must(scene.pool().Reserve(0));
  scene.cuda().FailOperation(nth, cudaErrorIllegalAddress);

  traffic.Submit();
  traffic.Run();

  const bool is_in_doubt = NoteLosses(traffic);
  traffic.ExpectRightBytes();
  EXPECT_EQ(scene.moves().unfinished(), 0U);
  EXPECT_FALSE(scene.tensors().is_in_use());
  if (scene.device().health().ok()) {
    return is_in_doubt;  // Fewer operations than that.
  }
  const std::array<HbmBlock, 1> blocks = {scene.OfSlot(spare, scene.HostAt(0))};
  EXPECT_STATUS(scene.moves().Submit(scene.MoveOf(HbmArrow::kOffload, blocks)),
                StatusCode::kDeviceError);
  EXPECT_STATUS(scene.pool().Reserve(0), StatusCode::kDeviceError);
  scene.moves().Step(scene.now());
  EXPECT_FALSE(scene.moves().TakeEnd().has_value());
  return is_in_doubt;
}

TEST(HbmEachFaultTest, ALostDeviceEndsEverythingOnce) {
  // From whichever operation on: nothing in flight is taken for done, nothing new begins.
  bool was_in_doubt = false;
  for (std::uint32_t nth = 1; nth <= 60; ++nth) {
    was_in_doubt = RunWithLostDevice(nth) || was_in_doubt;
  }
  EXPECT_TRUE(was_in_doubt);
}

TEST(HbmFaultsTest, SaysWhatThereIsNoMemoryFor) {
  // Each creation in turn; what was made before it is given back.
  for (const char* call : {"cudaMalloc", "cudaHostAlloc", "cudaStreamCreateWithPriority",
                           "cudaEventCreateWithFlags", "cudaLibraryLoadData"}) {
    testing::SimGpu gpu(sim::CudaSchedule::kEager);
    HbmMovesOptions options = WithKernels();
    options.is_pinned = [](std::span<const std::byte> /*bytes*/) {
      return false;
    };
    gpu.cuda().FailCall(call, 1, cudaErrorMemoryAllocation);

    const auto moves = HbmMoves::Create(gpu.device(), nullptr, options);

    EXPECT_STATUS(moves, StatusCode::kResourceExhausted);
    EXPECT_NE(moves.status().message().find("for device copies"), std::string_view::npos);
    EXPECT_NE(moves.status().message().find(call), std::string_view::npos);
  }
  testing::SimGpu gpu(sim::CudaSchedule::kEager);
  HbmMovesOptions options;
  options.parts_max = 0;
  EXPECT_STATUS(HbmMoves::Create(gpu.device(), nullptr, options), StatusCode::kInvalidArgument);
}

TEST(HbmFaultsTest, LeavesAServersCaptureAlone) {
  // A CUDA graph that another thread captures in global mode is lost to an unsafe call of ours.
  HbmScene scene(sim::CudaSchedule::kLazy, WithKernels());
  Traffic traffic(scene);
  gpu::Stream graph = Must(gpu::Stream::Create(scene.device(), gpu::StreamPriority::kLowest));
  std::mutex mutex;
  std::condition_variable changed;
  bool is_capturing = false;
  bool is_done = false;
  bool is_whole = false;
  std::thread server([&] {
    std::unique_lock<std::mutex> lock(mutex);
    EXPECT_TRUE(scene.cuda().BeginCapture(graph.native(), cudaStreamCaptureModeGlobal));
    is_capturing = true;
    changed.notify_all();
    changed.wait(lock, [&] { return is_done; });
    is_whole = scene.cuda().EndCapture(graph.native());
  });
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return is_capturing; });
  }

  traffic.Submit();
  traffic.Run();
  const std::vector<HbmBlock> blocks = {
      scene.OfSlot(Must(scene.pool().Reserve(0)), scene.HostAt(0))};
  const HbmMoveId id = Must(scene.moves().Submit(scene.MoveOf(HbmArrow::kOnboard, blocks)));
  scene.moves().Step(scene.now());
  EXPECT_STATUS(scene.moves().WaitLayer(id, 0, graph.native()), StatusCode::kInvalidArgument);
  EXPECT_STATUS(scene.moves().WaitLayer(id, 0, nullptr), StatusCode::kInvalidArgument);
  EXPECT_STATUS(scene.events().Record(graph.native()), StatusCode::kInvalidArgument);
  EXPECT_OK(scene.Finish());
  {
    const std::unique_lock<std::mutex> lock(mutex);
    is_done = true;
    changed.notify_all();
  }
  server.join();

  EXPECT_TRUE(is_whole);
  traffic.ExpectRightBytes();
}

TEST(HbmFaultsTest, LayersAreWaitedForOnOtherThreads) {
  // The mover publishes what callers' threads read: a race shows under the thread sanitizer.
  HbmScene scene(sim::CudaSchedule::kEager);
  std::vector<HbmBlock> blocks;
  for (std::uint32_t i = 0; i < 3; ++i) {
    HbmScene::FillHost(scene.HostAt(i), 80 + i);
    blocks.push_back(scene.OfSlot(Must(scene.pool().Reserve(0)), scene.HostAt(i)));
  }
  HbmMove move = scene.MoveOf(HbmArrow::kOnboard, blocks);
  move.layers_a_slice = 1;
  const HbmMoveId id = Must(scene.moves().Submit(std::move(move)));
  std::thread server([&] {
    EXPECT_OK(scene.device().EnterThread());
    for (std::uint32_t layer = 0; layer < HbmScene::kLayers; ++layer) {
      Status status;
      do {
        status = scene.moves().WaitLayer(id, layer, scene.server().native());
        std::this_thread::yield();
      } while (status.code() == StatusCode::kUnavailable);
      ASSERT_OK(status);
      for (std::uint32_t i = 0; i < 3; ++i) {
        scene.Use(blocks[i].slot, layer, i);
      }
    }
    EXPECT_OK(scene.server().Synchronize());
    for (std::uint32_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(HbmScene::IsHost(scene.SeenAt(i), 80 + i));
    }
  });
  const auto end = scene.RunToEnd();
  server.join();

  ASSERT_TRUE(end.has_value());
  EXPECT_OK(end->status);
}

}  // namespace
}  // namespace kvferry::tiers
