// CudaModel: the state of the simulated runtime, and when its queued operations run.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "kvferry/types.h"

#include "base/random.h"
#include "gpu/cuda_api.h"
#include "gpu/host_kernels.h"
#include "sim/cuda/block_runner.h"
#include "sim/cuda/device_arena.h"
#include "sim/cuda/sanitizer_hooks.h"
#include "sim/cuda/sim_cuda.h"

namespace kvferry::sim {

// One cudaEventRecord: a point in a stream. A wait holds on to the record it was made for.
struct EventMark {
  bool is_done = false;
  CUstream_st* stream = nullptr;
  std::uint64_t index = 0;  // Of the operation in its stream, from 1.
  char clock = 0;           // For Release and Acquire.
  Instant done_at{};
};

struct StreamOperation {
  const char* name = "";
  // What callers' memory sees of it; without the model's lock in kThreads. May lose the context.
  std::function<cudaError_t()> run;
  std::function<void()> settle;  // Bookkeeping, with the lock.
  EventMark* wait = nullptr;
  EventMark* signal = nullptr;
  std::unique_ptr<char> clock = std::make_unique<char>();  // Host to operation.
};

}  // namespace kvferry::sim

// The runtime's own opaque handles; here they are ours.
// NOLINTBEGIN(readability-identifier-naming,google-global-names-in-headers): CUDA's names.
struct CUstream_st {
  std::deque<kvferry::sim::StreamOperation> queue;
  std::uint64_t issued = 0;
  std::uint64_t completed = 0;
  std::uint64_t speed = 0;                                 // In kRandom.
  std::unique_ptr<char> clock = std::make_unique<char>();  // Operation to host.
  void* tsan_fiber = nullptr;
  std::unique_ptr<kvferry::sim::BlockRunner> runner;  // From its first kernel on.
  std::thread thread;                                 // In kThreads.
  bool is_stopping = false;
};
struct CUevent_st {
  kvferry::sim::EventMark* latest = nullptr;
};
// NOLINTEND(readability-identifier-naming,google-global-names-in-headers)

namespace kvferry::sim {

// Everything below but WaitFor and the entry functions needs the lock.
//
// Thread-compatible under `mutex`.
class CudaModel {
 public:
  explicit CudaModel(const SimCudaOptions& options);
  ~CudaModel();
  CudaModel(const CudaModel&) = delete;
  CudaModel& operator=(const CudaModel&) = delete;

  // The one that lives; null if none does.
  static CudaModel* Current();

  CUstream_st* CreateStream();
  void DestroyStream(CUstream_st* stream);
  CUevent_st* CreateEvent();
  bool IsStream(cudaStream_t stream) const { return streams_.contains(stream); }
  bool IsEvent(cudaEvent_t event) const { return events_.contains(event); }
  void DestroyEvent(cudaEvent_t event) { events_.erase(event); }
  EventMark* NewMark();

  void Enqueue(CUstream_st& stream, StreamOperation operation);
  // What a call of the runtime lets happen besides, by the schedule.
  void Progress();
  // Until the first `count` operations of `stream` are done.
  void WaitFor(std::unique_lock<std::mutex>& lock, CUstream_st& stream, std::uint64_t count);
  void WaitForStream(std::unique_lock<std::mutex>& lock, CUstream_st& stream);
  void WaitForAll(std::unique_lock<std::mutex>& lock);
  // A query that says "not yet" must end one day: now and then it makes the next operation run.
  void Nudge(CUstream_st& stream, std::uint64_t count);

  // Whether all of a range is memory that a copy may touch.
  bool IsValidRange(const void* memory, std::size_t size_bytes) const;
  bool IsPinned(const void* memory, std::size_t size_bytes) const;

  // What a call that is unsafe under capture meets in the calling thread; breaks the capture then.
  cudaError_t MeetCaptures();
  bool IsCaptured(cudaStream_t stream) const { return captures_.contains(stream); }
  bool IsCaptureBroken(cudaStream_t stream) const;
  bool BeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
  bool EndCapture(cudaStream_t stream);

  // The error that the next call of `name` is to fail with.
  cudaError_t TakeInjected(std::string_view name);

  std::mutex mutex;
  SimCudaOptions options;
  DeviceArena arena;
  std::map<const std::byte*, std::size_t> host_ranges;
  std::map<const std::byte*, std::unique_ptr<std::byte[]>> host_memory;  // Of cudaHostAlloc.
  std::deque<char> library_handles;                                      // What a handle points to.
  std::map<const void*, const gpu::HostKernelImage*> libraries;
  std::map<const void*, std::size_t> allowed_shared;  // By kernel.
  std::unordered_map<std::string, std::pair<std::uint32_t, cudaError_t>> injected;
  std::uint32_t fail_operation_in = 0;
  cudaError_t fail_operation_error = cudaSuccess;
  cudaError_t sticky = cudaSuccess;
  SimCudaCounts counts;
  Random random;

  SimCudaLive live() const;

  // Called while a kernel runs, with or without the lock by the schedule, hence its own.
  void SetKernelFailure(std::string text);
  std::string kernel_failure() const;

 private:
  struct Capture {
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    bool is_broken = false;
  };

  bool is_threaded() const noexcept { return options.schedule == CudaSchedule::kThreads; }
  static bool IsRunnable(const CUstream_st& stream);
  void Step(CUstream_st& stream);
  void RunInPlace(CUstream_st& stream, StreamOperation& operation, bool is_lost);
  void RunUnlocked(CUstream_st& stream, StreamOperation& operation, bool is_lost);
  bool StepFastest(std::uint64_t speed_min);
  void RedrawSpeeds();
  void Need(CUstream_st& stream, std::uint64_t count);
  void RunThread(CUstream_st& stream);
  [[noreturn]] void ReportDeadlock() const;

  mutable std::mutex failure_mutex_;
  std::string kernel_failure_;
  std::condition_variable changed_;
  std::unordered_map<CUstream_st*, std::unique_ptr<CUstream_st>> streams_;
  std::vector<CUstream_st*> stream_order_;  // As created: what is drawn must not hang on addresses.
  std::unordered_map<CUevent_st*, std::unique_ptr<CUevent_st>> events_;
  std::deque<EventMark> marks_;
  std::map<CUstream_st*, Capture> captures_;
  std::uint64_t host_speed_ = 0;
};

// The calling thread's own state in the runtime.
struct CudaThreadState {
  cudaError_t last_error = cudaSuccess;
  int device = 0;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
};
CudaThreadState& ThisCudaThread();

// The beginning of every entry function: takes the lock, lets the schedule have its way, and says
// what the call fails with before it begins.
class CudaCall {
 public:
  enum class Capture : std::uint8_t { kSafe, kUnsafe };

  explicit CudaCall(std::string_view name, Capture capture = Capture::kSafe);

  bool failed() const noexcept { return error_ != cudaSuccess; }
  cudaError_t error() const noexcept { return error_; }
  // Keeps an error as the thread's last one.
  static cudaError_t End(cudaError_t error);
  CudaModel& model() noexcept { return *model_; }
  std::unique_lock<std::mutex>& lock() noexcept { return lock_; }

 private:
  Hush hush_;  // First, so that also the lock is out of sight.
  CudaModel* model_;
  std::unique_lock<std::mutex> lock_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace kvferry::sim
