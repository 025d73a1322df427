// Kernels thread by thread: what works, and what is stopped with its place.
#include "sim/cuda/block_runner.h"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/kernels/language.h"

namespace kvferry::sim {
namespace {

using ::testing::HasSubstr;

struct Values {
  int* values;
  int size;
};

template <void (*kBody)(Values)>
std::string RunKernel(std::vector<int>& values, GridShape shape, std::uint64_t seed = 0) {
  BlockRunner runner;
  const auto kernel = gpu::MakeHostKernel<Values, kBody>("test");
  const Values argument{values.data(), static_cast<int>(values.size())};
  runner.Run(kernel, &argument, shape, seed);
  return runner.failure();
}

void SumOfBlock(Values argument) {
  KVFERRY_SHARED(int, sums, [4]);
  int value = static_cast<int>(threadIdx.x);
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(KVFERRY_FULL_WARP, value, lanes);
  }
  if (threadIdx.x % 32 == 0) {
    sums[threadIdx.x / 32] = value;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    argument.values[blockIdx.x + gridDim.x * blockIdx.y] = sums[0] + sums[1] + sums[2] + sums[3];
  }
}

TEST(BlockRunnerTest, AddsUpOverWarpsAndBarriers) {
  // A lost lane, a barrier that lets through, or a block that is left out changes a sum.
  for (const std::uint64_t seed : {0U, 1U, 2U, 3U}) {
    std::vector<int> sums(6);

    EXPECT_EQ(RunKernel<SumOfBlock>(sums, {dim3(3, 2), dim3(128), 0}, seed), "");

    EXPECT_THAT(sums, ::testing::Each(127 * 128 / 2));
  }
}

void ReverseThroughDynamicShared(Values argument) {
  KVFERRY_DYNAMIC_SHARED(int, shared);
  shared[threadIdx.x] = argument.values[threadIdx.x];
  __syncthreads();
  argument.values[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST(BlockRunnerTest, GivesDynamicSharedMemory) {
  // Fails if threads have one each.
  std::vector<int> values(40);
  std::iota(values.begin(), values.end(), 0);

  EXPECT_EQ(RunKernel<ReverseThroughDynamicShared>(values, {dim3(1), dim3(40), 160}), "");

  EXPECT_EQ(values.front(), 39);
  EXPECT_EQ(values.back(), 0);
}

void ReadUninitialised(Values argument) {
  KVFERRY_SHARED(int, shared, [32]);
  argument.values[threadIdx.x] = shared[threadIdx.x];
}

TEST(BlockRunnerTest, UninitialisedSharedMemoryIsNotZero) {
  // Zeros would hide a missing write.
  std::vector<int> values(32);

  EXPECT_EQ(RunKernel<ReadUninitialised>(values, {dim3(1), dim3(32), 0}), "");

  EXPECT_THAT(values, ::testing::Each(static_cast<int>(0xCBCBCBCBU)));
}

void VoteOfOdd(Values argument) {
  const unsigned votes = __ballot_sync(KVFERRY_FULL_WARP, threadIdx.x % 2 == 1);
  argument.values[threadIdx.x] = static_cast<int>(votes & 0xffU);
}

TEST(BlockRunnerTest, BallotHasOneBitALane) {
  // Also in a block that does not fill its warp.
  std::vector<int> values(20);

  EXPECT_EQ(RunKernel<VoteOfOdd>(values, {dim3(1), dim3(20), 0}), "");

  EXPECT_THAT(values, ::testing::Each(0xaa));
}

void DivergentBarrier(Values argument) {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    argument.values[threadIdx.x] = __shfl_xor_sync(KVFERRY_FULL_WARP, 1, 1);
  }
}

TEST(BlockRunnerTest, StopsADivergentBarrier) {
  // On a GPU this hangs, or does not, by its generation.
  std::vector<int> values(32);

  EXPECT_THAT(RunKernel<DivergentBarrier>(values, {dim3(1), dim3(32), 0}), HasSubstr("deadlock"));
}

void TwoBarriers(Values argument) {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  argument.values[threadIdx.x] = 1;
}

TEST(BlockRunnerTest, StopsThreadsAtDifferentBarriers) {
  // Undefined on the device.
  std::vector<int> values(32);

  const std::string failure = RunKernel<TwoBarriers>(values, {dim3(1), dim3(32), 0});

  EXPECT_THAT(failure, HasSubstr("different barriers at "));
  EXPECT_THAT(failure, HasSubstr("block_runner_test.cc:"));
}

void ExitEarly(Values argument) {
  if (threadIdx.x == 5) {
    return;
  }
  argument.values[threadIdx.x] = __shfl_xor_sync(KVFERRY_FULL_WARP, 1, 1);
}

TEST(BlockRunnerTest, StopsWhenAMaskNamesAnExitedLane) {
  // In either order of the two threads.
  for (const std::uint64_t seed : {0U, 7U, 8U, 9U}) {
    std::vector<int> values(32);

    EXPECT_THAT(RunKernel<ExitEarly>(values, {dim3(1), dim3(32), 0}, seed), HasSubstr("exit"));
  }
}

void WrongMask(Values argument) {
  const unsigned mask = threadIdx.x % 2 == 0 ? KVFERRY_FULL_WARP : 0xaaaaaaabU;
  argument.values[threadIdx.x] = __shfl_xor_sync(mask, 1, 2);
}

TEST(BlockRunnerTest, StopsLanesThatDisagreeOnTheirMask) {
  // Undefined on the device.
  std::vector<int> values(32);

  EXPECT_THAT(RunKernel<WrongMask>(values, {dim3(1), dim3(32), 0}), HasSubstr("disagree"));
}

TEST(BlockRunnerTest, RunsOnAfterAFailure) {
  // Fails if a fiber that was left in the middle is gone on with.
  BlockRunner runner;
  std::vector<int> values(32);
  const Values argument{values.data(), 32};
  const auto bad = gpu::MakeHostKernel<Values, DivergentBarrier>("bad");
  const auto good = gpu::MakeHostKernel<Values, SumOfBlock>("good");

  EXPECT_FALSE(runner.Run(bad, &argument, {dim3(1), dim3(32), 0}, 0));
  EXPECT_TRUE(runner.Run(good, &argument, {dim3(1), dim3(128), 0}, 0));

  EXPECT_EQ(values[0], 127 * 128 / 2);
}

}  // namespace
}  // namespace kvferry::sim
