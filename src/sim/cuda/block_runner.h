// BlockRunner: runs a kernel's blocks on the CPU, one CUDA thread a fiber.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "gpu/host_kernels.h"
#include "gpu/kernels/host_threads.h"
#include "sim/cuda/fiber.h"

namespace kvferry::sim {

struct GridShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;  // Dynamic.
};

// The fibers of one stream, reused from kernel to kernel: two streams that shared some would be
// ordered by them for the thread sanitizer. Blocks run one after another, their threads in turns:
// whenever one waits for others, the next ready one goes on.
//
// Thread-compatible.
class BlockRunner {
 public:
  BlockRunner() = default;
  ~BlockRunner() = default;
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // False if the kernel was stopped; failure() says why then. `seed` 0: threads and blocks in
  // order; else in a random one.
  bool Run(const gpu::HostKernel& kernel,
           const void* argument,
           const GridShape& shape,
           std::uint64_t seed);
  const std::string& failure() const noexcept { return failure_; }

  // The calling thread's, while it runs a kernel; null else.
  static BlockRunner* Current() noexcept;

  // What a kernel's thread calls, by way of gpu/kernels/host_threads.h.
  const gpu::on_host::ThreadPlace& place() const noexcept { return running_->place; }
  void SyncThreads(gpu::on_host::SourcePlace where);
  void SyncWarp(std::uint32_t mask, gpu::on_host::SourcePlace where);
  const std::uint64_t* ExchangeInWarp(std::uint32_t mask,
                                      std::uint64_t value,
                                      gpu::on_host::SourcePlace where);
  void Fence();
  void NoteAtomic(void* word);
  void* SharedVariable(const void* key, std::size_t size_bytes);
  void* DynamicShared() noexcept;
  [[noreturn]] void Stop(const char* reason, gpu::on_host::SourcePlace where);

 private:
  static constexpr std::uint32_t kLanes = gpu::on_host::kWarpLanes;
  // A reused fiber orders one block before the next, which CUDA does not. Sets used in turn leave
  // most pairs of blocks unordered; a fresh fiber each would cost seven times as much.
  static constexpr std::size_t kSanitizedSets = 3;

  struct CudaThread {
    Fiber fiber;
    gpu::on_host::ThreadPlace place;
    gpu::on_host::SourcePlace where{"", 0};  // Of the collective it waits at.
    bool has_fenced = false;
    std::vector<void*> atomics_seen;  // Since its last fence.
  };
  // One rendezvous of the lanes of a mask. Values and clocks of two rounds: a lane may begin the
  // next while another still reads.
  struct Collective {
    std::uint32_t mask = 0;
    std::uint32_t arrived = 0;
    std::uint64_t round = 0;
    std::array<std::array<std::uint64_t, kLanes>, 2> values{};
    std::array<char, 2> clocks{};
    std::vector<CudaThread*> waiting;
  };
  struct Warp {
    std::array<Collective, kLanes> collectives;  // By the lowest lane of the mask.
    std::uint32_t exited = 0;
  };
  struct Barrier {
    std::uint32_t arrived = 0;
    std::uint64_t round = 0;
    std::array<char, 2> clocks{};
    gpu::on_host::SourcePlace where{"", 0};
    std::vector<CudaThread*> waiting;
  };
  struct SharedMemory {
    const void* key;
    std::unique_ptr<std::uint64_t[]> words;  // NOLINT(modernize-avoid-c-arrays)
    std::size_t size_bytes;
  };

  [[noreturn]] void StopInDeadlock(gpu::on_host::SourcePlace where);
  [[noreturn]] void LeaveKernel();
  static void ThreadMain();
  void AbandonThreads();
  void RunThread();
  void RunBlock(const GridShape& shape, uint3 block);
  void PrepareThreads(const GridShape& shape, uint3 block);
  CudaThread* TakeReady();
  void WaitForOthers();
  void FinishBarrierIfComplete();
  std::uint32_t PresentLanes(std::uint32_t mask) const;
  void* AddShared(const void* key, std::size_t size_bytes);
  std::string DeadlockText() const;

  std::array<std::vector<std::unique_ptr<CudaThread>>, kSanitizedSets> sets_;
  std::size_t block_count_ = 0;
  Fiber main_;
  CudaThread* running_ = nullptr;
  std::deque<CudaThread*> ready_;
  std::uint32_t thread_count_ = 0;
  std::uint32_t alive_count_ = 0;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::unique_ptr<Barrier> barrier_;
  std::vector<SharedMemory> shared_;
  std::size_t dynamic_bytes_ = 0;
  const gpu::HostKernel* kernel_ = nullptr;
  const void* argument_ = nullptr;
  std::unique_ptr<std::array<char, 2>> clocks_;  // The grid's start and end.
  std::string failure_;
  bool is_shuffled_ = false;
  Random random_{0};
};

}  // namespace kvferry::sim
