// Device: one GPU of this process, its health, and why a GPU is not used.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "gpu/cuda_api.h"

namespace kvferry::gpu {

// What a GPU is, asked once.
struct DeviceFacts {
  int index = 0;  // Among the visible ones.
  std::string name;
  std::string pci_bus_id;
  std::array<unsigned char, 16> uuid{};
  int compute_major = 0;
  int compute_minor = 0;
  std::uint64_t memory_bytes = 0;
  int multiprocessor_count = 0;
  int copy_engine_count = 0;
  bool is_integrated = false;          // Device and host share their memory.
  bool uses_host_page_tables = false;  // Host memory needs no registration (GH200 class).
  std::string unusable_reason;         // Empty: kvferry can use it.
};

// All visible GPUs, also those that cannot be used, with the reason. kUnavailable if there is none:
// the message tells a missing or old driver from no visible device.
Result<std::vector<DeviceFacts>> DiscoverDevices(const CudaApi& api);

// The lowest compute capability that the kernels are built for.
inline constexpr int kComputeMajorMin = 8;

// The door through which every wrapper of this folder calls the runtime. Keeps the first sticky
// error: from then on nothing calls CUDA any more, and everything ends with that error, until the
// process starts anew.
//
// Must outlive all wrappers made with it, and must not outlive the table. Thread-safe.
class Device {
 public:
  class Token {
    friend class Device;
    Token() = default;
  };

  // Also does what EnterThread() does, for the calling thread.
  static Result<std::unique_ptr<Device>> Open(const CudaApi& api, int index);

  Device(Token token, const CudaApi& api, DeviceFacts facts);
  ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // For each thread of ours before its first call: makes this its device, and puts it into relaxed
  // capture mode, so that what it calls breaks no CUDA graph that a server captures meanwhile.
  Status EnterThread();

  // The first sticky error, or Ok. Touches no CUDA.
  Status health() const;
  const DeviceFacts& facts() const noexcept { return facts_; }
  const CudaApi& api() const noexcept { return api_; }
  int priority_lowest() const noexcept { return priority_lowest_; }
  int priority_highest() const noexcept { return priority_highest_; }

  // Makes a call's result a status. Takes an error that is not sticky out of the calling thread's
  // "last error" again: a server that checks that after its own launch must not find ours there.
  Status Check(cudaError_t result, std::string_view call);
  // The same for a query: false for "not ready yet".
  Result<bool> CheckReady(cudaError_t result, std::string_view call);

  struct MemoryInfo {
    std::uint64_t free_bytes = 0;
    std::uint64_t total_bytes = 0;
  };
  Result<MemoryInfo> memory_info();

 private:
  const CudaApi& api_;
  DeviceFacts facts_;
  int priority_lowest_ = 0;
  int priority_highest_ = 0;
  std::atomic<int> sticky_{0};  // A cudaError_t.
};

}  // namespace kvferry::gpu
