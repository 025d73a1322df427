// The simulated runtime against what NVIDIA's header says of each call.
#include "sim/cuda/sim_cuda.h"

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/host_kernels.h"
#include "gpu/kernels/language.h"

namespace kvferry::sim {
namespace {

class SimCudaTest : public ::testing::TestWithParam<CudaSchedule> {
 protected:
  static SimCudaOptions Options() {
    SimCudaOptions options;
    options.schedule = GetParam();
    options.device_bytes = 1U << 20;
    options.delay_us_max = 20;
    return options;
  }

  cudaStream_t NewStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(api().cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    return stream;
  }
  std::byte* NewDevice(std::size_t size_bytes) {
    void* memory = nullptr;
    EXPECT_EQ(api().cudaMalloc(&memory, size_bytes), cudaSuccess);
    return static_cast<std::byte*>(memory);
  }
  std::byte* NewPinned(std::size_t size_bytes) {
    void* memory = nullptr;
    EXPECT_EQ(api().cudaHostAlloc(&memory, size_bytes, cudaHostAllocDefault), cudaSuccess);
    return static_cast<std::byte*>(memory);
  }
  const gpu::CudaApi& api() const { return cuda_.api(); }

  SimCuda cuda_{Options()};
};

INSTANTIATE_TEST_SUITE_P(AllSchedules,
                         SimCudaTest,
                         ::testing::Values(CudaSchedule::kEager,
                                           CudaSchedule::kLazy,
                                           CudaSchedule::kRandom,
                                           CudaSchedule::kThreads),
                         [](const auto& schedule) {
                           return std::string(ToString(schedule.param));
                         });

TEST_P(SimCudaTest, CopiesDownWhatWasCopiedUp) {
  // The plainest program there is.
  cudaStream_t stream = NewStream();
  std::byte* const device = NewDevice(5000);
  std::byte* const up = NewPinned(5000);
  std::byte* const down = NewPinned(5000);
  std::memset(up, 0x5a, 5000);

  EXPECT_EQ(api().cudaMemcpyAsync(device, up, 5000, cudaMemcpyHostToDevice, stream), cudaSuccess);
  EXPECT_EQ(api().cudaMemcpyAsync(down, device, 5000, cudaMemcpyDefault, stream), cudaSuccess);
  EXPECT_EQ(api().cudaStreamSynchronize(stream), cudaSuccess);

  EXPECT_EQ(std::memcmp(up, down, 5000), 0);
  EXPECT_EQ(cuda_.counts().copies, 2U);
  EXPECT_EQ(cuda_.counts().pageable_copies, 0U);
}

TEST_P(SimCudaTest, CopiesRows) {
  // A wrong step shows in the bytes between the rows.
  cudaStream_t stream = NewStream();
  std::byte* const device = NewDevice(64);
  std::byte* const host = NewPinned(64);
  std::memset(host, 1, 64);
  EXPECT_EQ(api().cudaMemsetAsync(device, 0, 64, stream), cudaSuccess);

  EXPECT_EQ(api().cudaMemcpy2DAsync(device, 16, host, 8, 8, 4, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  EXPECT_EQ(api().cudaMemcpyAsync(host, device, 64, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(api().cudaStreamSynchronize(stream), cudaSuccess);

  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(host[i], std::byte{static_cast<unsigned char>(i % 16 < 8 ? 1 : 0)}) << i;
  }
  EXPECT_EQ(api().cudaMemcpy2DAsync(device, 4, host, 8, 8, 4, cudaMemcpyHostToDevice, stream),
            cudaErrorInvalidPitchValue);
}

TEST_P(SimCudaTest, RefusesWhatIsOutOfBoundsOrTheWrongWay) {
  // On a GPU the first corrupts somebody's memory, or stops the context.
  cudaStream_t stream = NewStream();
  std::byte* const device = NewDevice(100);
  std::byte* const host = NewPinned(100);

  EXPECT_EQ(api().cudaMemcpyAsync(device + 99, host, 2, cudaMemcpyHostToDevice, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(api().cudaMemcpyAsync(device, host, 2, cudaMemcpyDeviceToHost, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(api().cudaMemsetAsync(device, 0, 101, stream), cudaErrorInvalidValue);
  EXPECT_EQ(api().cudaMemsetAsync(host, 0, 1, stream), cudaErrorInvalidValue);
  EXPECT_EQ(api().cudaFree(device + 1), cudaErrorInvalidValue);
}

TEST_P(SimCudaTest, KeepsTheLastErrorUntilItIsTaken) {
  // "Not ready" is kept as well, which surprises servers that check after their own calls.
  EXPECT_EQ(api().cudaSetDevice(7), cudaErrorInvalidDevice);

  EXPECT_EQ(api().cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(api().cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(api().cudaGetLastError(), cudaSuccess);
}

TEST_P(SimCudaTest, BatchesByTheRulesOf13) {
  // Each of these is an error of the real call.
  cudaStream_t stream = NewStream();
  std::byte* const device = NewDevice(200);
  std::byte* const host = NewPinned(200);
  std::memset(host, 'k', 200);
  std::array<void*, 2> targets = {device, device + 100};
  std::array<const void*, 2> sources = {host, host + 100};
  std::array<std::size_t, 2> sizes = {100, 100};
  std::array<std::size_t, 2> starts = {0, 1};
  std::array<cudaMemcpyAttributes, 2> attributes{};
  attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  const auto batch = [&](std::size_t* first, std::size_t sets, cudaStream_t where) {
    return api().cudaMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), 2,
                                      attributes.data(), first, sets, where);
  };

  EXPECT_EQ(batch(starts.data(), 1, nullptr), cudaErrorInvalidValue);     // The null stream.
  EXPECT_EQ(batch(starts.data() + 1, 1, stream), cudaErrorInvalidValue);  // Does not begin at 0.
  EXPECT_EQ(batch(starts.data(), 2, stream), cudaErrorInvalidValue);      // No order in the second.
  EXPECT_EQ(batch(starts.data(), 1, stream), cudaSuccess);

  std::byte* const down = NewPinned(200);
  EXPECT_EQ(api().cudaMemcpyAsync(down, device, 200, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(api().cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(std::memcmp(down, host, 200), 0);
}

TEST_P(SimCudaTest, StagesAPageableSourceInTheCall) {
  // The caller may overwrite it at once, and the copy is counted, for it is slow.
  cudaStream_t stream = NewStream();
  std::byte* const device = NewDevice(100);
  std::byte* const down = NewPinned(100);
  std::vector<std::byte> pageable(100, std::byte{7});

  EXPECT_EQ(api().cudaMemcpyAsync(device, pageable.data(), 100, cudaMemcpyDefault, stream),
            cudaSuccess);
  pageable.assign(100, std::byte{9});
  EXPECT_EQ(api().cudaMemcpyAsync(down, device, 100, cudaMemcpyDefault, stream), cudaSuccess);
  EXPECT_EQ(api().cudaStreamSynchronize(stream), cudaSuccess);

  EXPECT_EQ(down[99], std::byte{7});
  EXPECT_EQ(cuda_.counts().pageable_copies, 1U);
}

TEST_P(SimCudaTest, RegistersHostMemoryOnce) {
  // A copy from it is pinned then, and not before or after.
  cudaStream_t stream = NewStream();
  std::byte* const device = NewDevice(4096);
  std::vector<std::byte> memory(8192);

  EXPECT_EQ(api().cudaHostRegister(memory.data(), 8192, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(api().cudaHostRegister(memory.data() + 4096, 4096, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  cudaPointerAttributes attributes{};
  EXPECT_EQ(api().cudaPointerGetAttributes(&attributes, memory.data() + 5000), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(api().cudaMemcpyAsync(device, memory.data(), 4096, cudaMemcpyDefault, stream),
            cudaSuccess);
  EXPECT_EQ(api().cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(api().cudaHostUnregister(memory.data()), cudaSuccess);

  EXPECT_EQ(api().cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cuda_.counts().pageable_copies, 0U);
}

TEST_P(SimCudaTest, EventsThatWereNeverRecordedHoldNothingUp) {
  // Whoever waits for an event too early waits for nothing: a trap of the real runtime.
  cudaStream_t stream = NewStream();
  cudaEvent_t event = nullptr;
  EXPECT_EQ(api().cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);

  EXPECT_EQ(api().cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(api().cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
  EXPECT_EQ(api().cudaStreamSynchronize(stream), cudaSuccess);
}

TEST_P(SimCudaTest, PollingEnds) {
  // Also on a schedule that runs nothing by itself.
  cudaStream_t stream = NewStream();
  std::byte* const device = NewDevice(100);
  cudaEvent_t event = nullptr;
  EXPECT_EQ(api().cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(api().cudaMemsetAsync(device, i, 100, stream), cudaSuccess);
  }
  EXPECT_EQ(api().cudaEventRecord(event, stream), cudaSuccess);

  cudaError_t answer = cudaErrorNotReady;
  while (answer == cudaErrorNotReady) {
    answer = api().cudaEventQuery(event);
    std::this_thread::yield();
  }

  EXPECT_EQ(answer, cudaSuccess);
  EXPECT_EQ(cuda_.counts().operations, 6U);
}

TEST_P(SimCudaTest, RunsOutOfMemoryAndRecovers) {
  // Out of memory loses nothing.
  void* memory = nullptr;
  EXPECT_EQ(api().cudaMalloc(&memory, 2U << 20), cudaErrorMemoryAllocation);

  EXPECT_NE(NewDevice(1U << 20), nullptr);
}

TEST_P(SimCudaTest, FailsTheCallThatWasAskedFor) {
  // The second one, and only that.
  cuda_.FailCall("cudaMalloc", 2, cudaErrorMemoryAllocation);
  void* memory = nullptr;

  EXPECT_EQ(api().cudaMalloc(&memory, 16), cudaSuccess);
  EXPECT_EQ(api().cudaMalloc(&memory, 16), cudaErrorMemoryAllocation);
  EXPECT_EQ(api().cudaMalloc(&memory, 16), cudaSuccess);
}

TEST_P(SimCudaTest, LosesTheContextForGood) {
  // From the failed operation on, every call says so, and nothing is done any more.
  cudaStream_t stream = NewStream();
  std::byte* const device = NewDevice(16);
  std::byte* const host = NewPinned(16);
  std::memset(host, 1, 16);
  cuda_.FailOperation(2, cudaErrorIllegalAddress);

  EXPECT_EQ(api().cudaMemsetAsync(device, 2, 16, stream), cudaSuccess);
  static_cast<void>(api().cudaMemcpyAsync(host, device, 16, cudaMemcpyDefault, stream));
  EXPECT_EQ(api().cudaStreamSynchronize(stream), cudaErrorIllegalAddress);

  EXPECT_EQ(host[0], std::byte{1});
  void* memory = nullptr;
  EXPECT_EQ(api().cudaMalloc(&memory, 16), cudaErrorIllegalAddress);
  EXPECT_EQ(api().cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(api().cudaGetLastError(), cudaErrorIllegalAddress);
}

TEST_P(SimCudaTest, CapturesAreBrokenByUnsafeCallsOfOthers) {
  // A server that captures in global mode loses its graph to our query, unless our thread is
  // relaxed.
  cudaStream_t server = NewStream();
  cudaStream_t ours = NewStream();
  const auto query_as = [&](bool is_relaxed) {
    cudaError_t answer = cudaSuccess;
    std::thread other([&] {
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
      if (is_relaxed) {
        EXPECT_EQ(api().cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
        EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
      }
      answer = api().cudaStreamQuery(ours);
    });
    other.join();
    return answer;
  };

  ASSERT_TRUE(cuda_.BeginCapture(server, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(api().cudaStreamIsCapturing(server, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(query_as(true), cudaSuccess);
  EXPECT_TRUE(cuda_.EndCapture(server));

  ASSERT_TRUE(cuda_.BeginCapture(server, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(query_as(false), cudaErrorStreamCaptureUnsupported);
  EXPECT_FALSE(cuda_.EndCapture(server));

  ASSERT_TRUE(cuda_.BeginCapture(server, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(query_as(false), cudaSuccess);
  EXPECT_TRUE(cuda_.EndCapture(server));
}

struct Scale {
  int* values;
  int factor;
};
void ScaleBy(Scale argument) {
  argument.values[threadIdx.x] *= argument.factor;
}
void TouchOneTooMany(Scale argument) {
  if (threadIdx.x < 3) {
    __syncthreads();
  }
  argument.values[threadIdx.x] = static_cast<int>(__ballot_sync(KVFERRY_FULL_WARP, true));
}
constexpr std::array<gpu::HostKernel, 2> kKernels = {
    gpu::MakeHostKernel<Scale, ScaleBy>("scale"),
    gpu::MakeHostKernel<Scale, TouchOneTooMany>("stuck")};
const gpu::HostKernelImage kImage{gpu::HostKernelImage::kMark, kKernels};

TEST_P(SimCudaTest, LaunchesKernelsByName) {
  // With a copy of the argument: the launch returns before the kernel runs.
  cudaStream_t stream = NewStream();
  auto* const device = reinterpret_cast<int*>(NewDevice(32));
  auto* const host = reinterpret_cast<int*>(NewPinned(32));
  for (int i = 0; i < 8; ++i) {
    host[i] = i;
  }
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  const std::array<std::uint64_t, 2> no_image{};
  EXPECT_EQ(api().cudaLibraryLoadData(&library, no_image.data(), nullptr, nullptr, 0, nullptr,
                                      nullptr, 0),
            cudaErrorInvalidKernelImage);
  ASSERT_EQ(api().cudaLibraryLoadData(&library, &kImage, nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaSuccess);
  EXPECT_EQ(api().cudaLibraryGetKernel(&kernel, library, "none"), cudaErrorSymbolNotFound);
  ASSERT_EQ(api().cudaLibraryGetKernel(&kernel, library, "scale"), cudaSuccess);

  EXPECT_EQ(api().cudaMemcpyAsync(device, host, 32, cudaMemcpyDefault, stream), cudaSuccess);
  Scale argument{device, 3};
  std::array<void*, 1> arguments = {&argument};
  const auto launch = [&](unsigned threads, std::size_t shared_bytes) {
    return api().cudaLaunchKernel(kernel, dim3(1), dim3(threads), arguments.data(), shared_bytes,
                                  stream);
  };
  EXPECT_EQ(launch(1025, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(8, 64U << 10), cudaErrorInvalidConfiguration);  // Not asked for.
  EXPECT_EQ(
      api().cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10),
      cudaSuccess);
  EXPECT_EQ(launch(8, 64U << 10), cudaSuccess);
  argument.factor = 100;
  EXPECT_EQ(api().cudaMemcpyAsync(host, device, 32, cudaMemcpyDefault, stream), cudaSuccess);
  EXPECT_EQ(api().cudaStreamSynchronize(stream), cudaSuccess);

  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(host[i], 3 * i);
  }
  EXPECT_EQ(api().cudaLibraryUnload(library), cudaSuccess);
}

TEST_P(SimCudaTest, AStoppedKernelLosesTheContext) {
  // And says why.
  cudaStream_t stream = NewStream();
  auto* const device = reinterpret_cast<int*>(NewDevice(32));
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  ASSERT_EQ(api().cudaLibraryLoadData(&library, &kImage, nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaSuccess);
  ASSERT_EQ(api().cudaLibraryGetKernel(&kernel, library, "stuck"), cudaSuccess);
  Scale argument{device, 3};
  std::array<void*, 1> arguments = {&argument};

  static_cast<void>(api().cudaLaunchKernel(kernel, dim3(1), dim3(8), arguments.data(), 0, stream));
  EXPECT_EQ(api().cudaStreamSynchronize(stream), cudaErrorLaunchFailure);

  EXPECT_NE(cuda_.kernel_failure().find("stuck: deadlock"), std::string::npos)
      << cuda_.kernel_failure();
}

TEST_P(SimCudaTest, CountsWhatLives) {
  // What a test of ours uses to find leaks.
  const SimCudaLive before = cuda_.live();
  cudaStream_t stream = NewStream();
  cudaEvent_t event = nullptr;
  EXPECT_EQ(api().cudaEventCreateWithFlags(&event, 0), cudaSuccess);
  std::byte* const device = NewDevice(16);
  EXPECT_EQ(cuda_.live().streams, before.streams + 1);
  EXPECT_EQ(cuda_.live().events, before.events + 1);
  EXPECT_EQ(cuda_.live().device_allocations, before.device_allocations + 1);

  EXPECT_EQ(api().cudaFreeAsync(device, stream), cudaSuccess);
  EXPECT_EQ(api().cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(api().cudaEventDestroy(event), cudaSuccess);

  EXPECT_EQ(cuda_.live(), before);
  EXPECT_EQ(api().cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
}

#ifndef __SANITIZE_THREAD__
TEST(SimCudaDeathTest, StopsAHostThatTouchesDeviceMemory) {
  // On a GPU this is a segmentation fault too; a fake with plain memory would let it pass.
  SimCuda cuda{SimCudaOptions()};
  void* memory = nullptr;
  ASSERT_EQ(cuda.api().cudaMalloc(&memory, 16), cudaSuccess);
  EXPECT_DEATH(static_cast<volatile char*>(memory)[0] = 1, "host code touched device memory");
}
#endif

TEST(SimCudaDiscoveryTest, SaysWhatAMachineWithoutADriverSays) {
  // The two cases that users meet.
  SimCudaOptions options;
  options.has_driver = false;
  {
    const SimCuda cuda(options);
    int count = -1;
    EXPECT_EQ(cuda.api().cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  }
  options.has_driver = true;
  options.device_count = 0;
  const SimCuda cuda(options);
  int count = -1;
  EXPECT_EQ(cuda.api().cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace kvferry::sim
