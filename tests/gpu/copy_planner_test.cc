// Merged runs copy the same bytes; the choice follows the thresholds.
#include "gpu/copy_planner.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "gpu/memory.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;

TEST(GpuCopyPlannerTest, MergesWhatContinuesOnBothSides) {
  // On one side only is not enough.
  std::vector<std::byte> source(64);
  std::vector<std::byte> target(64);
  const auto run = [&](std::size_t to, std::size_t from, std::size_t size_bytes) {
    return CopyRun{target.data() + to, source.data() + from, size_bytes};
  };
  std::vector<CopyRun> runs = {run(16, 24, 8), run(0, 8, 8), run(8, 16, 8), run(32, 40, 4),
                               run(36, 50, 4)};

  runs.resize(MergeRuns(runs));

  EXPECT_EQ(runs, (std::vector<CopyRun>{run(0, 8, 24), run(32, 40, 4), run(36, 50, 4)}));
  EXPECT_EQ(MergeRuns({}), 0U);
}

TEST(GpuCopyPlannerTest, ChoosesByNumberSizeAndDirection) {
  // Each border from both sides.
  const CopyThresholds thresholds{4, 512 << 10, 32 << 10};
  const auto choose = [&](CopyDirection direction, std::size_t count, std::size_t mean_bytes) {
    return ChooseCopyMethod(thresholds, direction, count, count * mean_bytes);
  };

  EXPECT_EQ(choose(CopyDirection::kHostToDevice, 4, 16), CopyMethod::kSingle);
  EXPECT_EQ(choose(CopyDirection::kHostToDevice, 5, 16), CopyMethod::kKernel);
  EXPECT_EQ(choose(CopyDirection::kHostToDevice, 5, 32 << 10), CopyMethod::kBatch);
  EXPECT_EQ(choose(CopyDirection::kHostToDevice, 5, 512 << 10), CopyMethod::kSingle);
  EXPECT_EQ(choose(CopyDirection::kDeviceToHost, 5, 16), CopyMethod::kBatch);
  EXPECT_EQ(choose(CopyDirection::kDeviceToDevice, 5, (32 << 10) - 1), CopyMethod::kKernel);
}

TEST(GpuCopyPlannerTest, MergedRunsCopyTheSameBytes) {
  // By both methods, with more runs than a batch holds.
  for (const CopyMethod method : {CopyMethod::kSingle, CopyMethod::kBatch}) {
    SimGpu gpu(sim::CudaSchedule::kLazy);
    Stream stream = Must(Stream::Create(gpu.device(), StreamPriority::kLowest));
    DeviceBuffer device = Must(DeviceBuffer::Create(gpu.device(), 512));
    PinnedBuffer up = Must(PinnedBuffer::Create(gpu.device(), 512));
    PinnedBuffer down = Must(PinnedBuffer::Create(gpu.device(), 512));
    Random random(7);
    std::vector<std::byte> expected(512, std::byte{0});
    std::vector<CopyRun> runs;
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t from = random.Chance(0.7) ? i : static_cast<std::size_t>(random.Below(32));
      runs.push_back({device.data() + 16 * i, up.bytes().data() + 16 * from, 16});
    }
    std::reverse(runs.begin(), runs.end());
    for (std::byte& byte : up.bytes()) {
      byte = std::byte{static_cast<unsigned char>(random.Next())};
    }
    for (const CopyRun& run : runs) {
      std::memcpy(expected.data() + (run.target - device.data()), run.source, 16);
    }
    CopyBatch batch(3);

    runs.resize(MergeRuns(runs));
    ASSERT_OK(SubmitRuns(stream, batch, runs, method));
    ASSERT_OK(stream.Copy(down.bytes().data(), device.data(), 512));
    ASSERT_OK(stream.Synchronize());

    EXPECT_LT(runs.size(), 32U);
    EXPECT_EQ(std::memcmp(down.bytes().data(), expected.data(), 512), 0) << ToString(method);
  }
}

}  // namespace
}  // namespace kvferry::gpu
