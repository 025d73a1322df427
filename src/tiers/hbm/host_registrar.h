// HostRegistrar: registers the host tier's memory with CUDA in the background, piece by piece.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "kvferry/status.h"

#include "base/mutex.h"
#include "gpu/device.h"
#include "gpu/memory.h"

namespace kvferry::tiers {

struct HostRegistrarOptions {
  // The runtime is busy for as long as a piece takes, and pins pages that nobody has touched yet.
  std::uint64_t piece_bytes = std::uint64_t{4} << 30;
};

// A thread that registers the area from its start and ends with it. What is registered already is
// copied directly; the rest, and for good what the system refuses to register (a limit on locked
// memory, most often), goes by way of pinned buffers. Nothing is registered where the device reads
// host memory through the host's page tables: all of it is as good as pinned there.
//
// Thread-compatible, but for IsPinned(), registered_bytes() and status(), which are for any thread.
// Unregisters when destroyed; no copy may be running then.
class HostRegistrar {
  struct Token {};  // Only Start can name it.

 public:
  static constexpr std::uint64_t kPieceBytesMax = std::uint64_t{64} << 30;
  // Slabs are made of chunks of so many bytes, so pieces end on borders of slabs or inside a long
  // one, whose slots there go by way of buffers.
  static constexpr std::uint64_t kPieceAlignmentBytes = std::uint64_t{2} << 20;

  // `area` stays mapped until this is destroyed. kInvalidArgument for a size of pieces that is 0,
  // above kPieceBytesMax or no multiple of 2 MiB; kResourceExhausted when no thread can be started.
  static Result<std::unique_ptr<HostRegistrar>> Start(gpu::Device& device,
                                                      std::span<std::byte> area,
                                                      const HostRegistrarOptions& options = {});

  HostRegistrar(Token token,
                gpu::Device& device,
                std::span<std::byte> area,
                const HostRegistrarOptions& options);
  HostRegistrar(const HostRegistrar&) = delete;
  HostRegistrar& operator=(const HostRegistrar&) = delete;
  // Stops.
  ~HostRegistrar();

  // Whether all of it lies in one registered piece: a copy across two is refused by the runtime.
  bool IsPinned(std::span<const std::byte> bytes) const noexcept;
  // How much, from the area's start.
  std::uint64_t registered_bytes() const noexcept { return registered_bytes_.load(); }
  // Why the rest is not registered, with its size; Ok as long as nothing was refused.
  Status status() const KVFERRY_EXCLUDES(mutex_);
  // Waits for the end of the thread's work.
  void Wait();
  // Ends after the piece at hand and waits for that.
  void Stop();

 private:
  void Run();

  gpu::Device& device_;
  std::span<std::byte> area_;
  std::uint64_t piece_bytes_;
  std::vector<gpu::HostRegistration> pieces_;  // The thread's own while it runs.
  std::atomic<bool> is_stopping_ = false;
  std::atomic<std::uint64_t> registered_bytes_ = 0;
  mutable Mutex mutex_;
  Status status_ KVFERRY_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace kvferry::tiers
