// SimCuda: a CUDA runtime that runs on the CPU, behind the same table as the real one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gpu/cuda_api.h"

namespace kvferry::sim {

class CudaModel;

// When a queued operation runs. All are legal; a program with a missing wait is wrong in one.
enum class CudaSchedule : std::uint8_t {
  kEager,    // At once when its waits allow it. Hides every missing wait, but not from TSan.
  kLazy,     // Only when something that the host waits for needs it: as late as legal.
  kRandom,   // Streams and host have random speeds, redrawn now and then.
  kThreads,  // A thread a stream, with random delays.
};
std::string_view ToString(CudaSchedule schedule) noexcept;

struct SimCudaOptions {
  CudaSchedule schedule = CudaSchedule::kEager;
  std::uint64_t seed = 1;
  // Device memory is unreadable while the host runs; costs some 30 us per MiB and operation, so
  // keep pools small. Not in kThreads.
  bool is_memory_guarded = true;
  std::uint64_t device_bytes = std::uint64_t{1} << 30;
  std::uint32_t delay_us_max = 200;  // In kThreads.
  std::uint32_t device_count = 1;    // 0: as on a machine without a GPU.
  int compute_major = 9;
  bool has_driver = true;
  bool is_integrated = false;
};

struct SimCudaCounts {
  std::uint64_t operations = 0;
  std::uint64_t copies = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t launches = 0;
  std::uint64_t pageable_copies = 0;  // Copies of host memory that is not pinned: a bug of ours.
};

struct SimCudaLive {  // What was created and not yet destroyed.
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t device_allocations = 0;
  std::size_t host_ranges = 0;  // Allocated or registered.
  std::size_t libraries = 0;
  bool operator==(const SimCudaLive&) const = default;
};

// The process's one simulated runtime: like CUDA itself it is global, so at most one lives at a
// time, and everything made through its table must be destroyed before it or is gone with it.
//
// Modelled: order of streams and events, copies with their bounds and pinned or pageable ends,
// batch copies in any order, host registration, errors, capture modes of threads, kernels thread by
// thread. Not modelled: time, bandwidth, priorities, queue limits, graphs, peers.
//
// Thread-safe, as CUDA is, but for construction and destruction.
class SimCuda {
 public:
  explicit SimCuda(const SimCudaOptions& options);
  ~SimCuda();
  SimCuda(const SimCuda&) = delete;
  SimCuda& operator=(const SimCuda&) = delete;

  const gpu::CudaApi& api() const noexcept { return api_; }

  // The `nth` next call (1: the very next) of `name`, such as "cudaMalloc", fails with `error`.
  void FailCall(std::string_view name, std::uint32_t nth, cudaError_t error);
  // The `nth` next operation of the device is not done, and the context is lost with `error`.
  void FailOperation(std::uint32_t nth, cudaError_t error);

  // What a server does while it captures a CUDA graph: from now on `stream` only takes note. In the
  // calling thread's name. False if `stream` is captured already.
  bool BeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
  // True if no call broke the capture meanwhile.
  bool EndCapture(cudaStream_t stream);

  // Why the last kernel was stopped: "divergent barrier at file:line ..."; empty if none was.
  std::string kernel_failure() const;
  SimCudaCounts counts() const;
  SimCudaLive live() const;

 private:
  std::unique_ptr<CudaModel> model_;
  gpu::CudaApi api_;
};

}  // namespace kvferry::sim
