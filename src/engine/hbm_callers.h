// HbmCallers: what callers' threads have to do with the GPU: tensors, events, waits for layers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kvferry/device.h"
#include "kvferry/status.h"

#include "base/mutex.h"
#include "engine/device_arrows.h"
#include "gpu/caller_events.h"
#include "gpu/device.h"
#include "tiers/hbm/hbm_moves.h"
#include "tiers/hbm/paged_tensors.h"

namespace kvferry::engine {

// Fixed tables, all taken at creation. Tensors are kept as long as a request that was admitted is
// not released, so the mover may use what Tensors() gives without a lock until then.
//
// Thread-safe, but for construction, Close and destruction, which are for the mover thread.
class HbmCallers {
  struct Token {};  // Only Create can name it.

 public:
  static constexpr std::uint32_t kTensorsMax = 256;

  // What a block of tensors has at most, as the moves are made; and how many there are of others.
  struct Limits {
    std::uint64_t layer_bytes_max = 0;
    std::uint32_t pages_max = 0;
    std::uint32_t moves_max = 0;  // Of HbmMoves.
    std::uint32_t requests_max = 0;
  };

  // kResourceExhausted if the device has no events left. `moves` must outlive the last call before
  // Close().
  static Result<std::unique_ptr<HbmCallers>> Create(gpu::Device& device,
                                                    tiers::HbmMoves& moves,
                                                    const Limits& limits);
  HbmCallers(Token token,
             gpu::Device& device,
             tiers::HbmMoves& moves,
             const Limits& limits,
             std::unique_ptr<gpu::CallerEvents> events);
  HbmCallers(const HbmCallers&) = delete;
  HbmCallers& operator=(const HbmCallers&) = delete;
  ~HbmCallers() = default;

  // As DeviceArrows has them -------------------------------------------------------------------
  Result<TensorsHandle> Register(const DeviceTensors& tensors) KVFERRY_EXCLUDES(mutex_);
  Status Unregister(TensorsHandle tensors) KVFERRY_EXCLUDES(mutex_);
  Result<DeviceArrows::Admitted> Admit(const DeviceArrows::Wish& wish) KVFERRY_EXCLUDES(mutex_);
  void Release(const DeviceArrows::Admitted& admitted) KVFERRY_EXCLUDES(mutex_);
  void Begin(Ticket ticket, std::uint32_t blocks, const DeviceArrows::Admitted& admitted)
      KVFERRY_EXCLUDES(mutex_);
  Status WaitLayer(Ticket ticket, std::uint32_t layer, NativeStream stream)
      KVFERRY_EXCLUDES(mutex_);

  // Of the mover thread ------------------------------------------------------------------------
  // Of a request that is not released.
  tiers::PagedTensors& Tensors(std::uint32_t index) KVFERRY_EXCLUDES(mutex_);
  // Whether what the stream had been given is done; also where there was nothing to wait for.
  // An error of a lost device.
  Result<bool> IsEventDone(std::uint32_t event) KVFERRY_EXCLUDES(mutex_);
  // A move of so many of the request's blocks was submitted, or has ended and is to be forgotten.
  void NoteMove(std::uint32_t request, std::uint32_t blocks, tiers::HbmMoveId move)
      KVFERRY_EXCLUDES(mutex_);
  void ForgetMove(std::uint32_t request, tiers::HbmMoveId move, const Status& status)
      KVFERRY_EXCLUDES(mutex_);
  void NoteMissing(std::uint32_t request) KVFERRY_EXCLUDES(mutex_);
  void EndRequest(std::uint32_t request, bool is_complete) KVFERRY_EXCLUDES(mutex_);
  std::uint32_t registered() const KVFERRY_EXCLUDES(mutex_);
  // Lets go of all that is the device's. What is called later is refused.
  void Close() KVFERRY_EXCLUDES(mutex_);

 private:
  struct Registered {
    std::uint32_t generation = 1;
    std::uint32_t users = 0;
    std::unique_ptr<tiers::PagedTensors> tensors;
  };
  // What WaitLayer() knows of a request.
  struct Awaited {
    std::uint32_t generation = 0;
    std::uint32_t blocks = 0;
    std::uint32_t blocks_moving = 0;  // Handed to the moves, whether done or not.
    std::uint32_t layers = 0;
    bool has_ended = false;
    Status failure;
  };
  struct Moving {
    std::uint32_t request = kNobody;
    tiers::HbmMoveId id;
  };
  static constexpr std::uint32_t kNobody = 0xffffffff;

  static void SetMissing(Awaited& awaited);
  Status CheckIsOpen() const KVFERRY_REQUIRES(mutex_);
  Status CheckSizes(const tiers::PagedTensors& tensors, const DeviceTensors& described) const;
  // The tensors of a handle; null for a stale one.
  Registered* Find(TensorsHandle handle) KVFERRY_REQUIRES(mutex_);
  Status CheckWish(const DeviceArrows::Wish& wish) KVFERRY_REQUIRES(mutex_);

  gpu::Device& device_;
  tiers::HbmMoves& moves_;
  Limits limits_;
  mutable Mutex mutex_;
  bool is_closed_ KVFERRY_GUARDED_BY(mutex_) = false;
  // Before what is taken from it.
  std::unique_ptr<gpu::CallerEvents> events_ KVFERRY_GUARDED_BY(mutex_);
  std::vector<std::optional<gpu::CallerEvent>> recorded_ KVFERRY_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> recorded_free_ KVFERRY_GUARDED_BY(mutex_);
  std::vector<Registered> registered_ KVFERRY_GUARDED_BY(mutex_);
  std::uint32_t registered_count_ KVFERRY_GUARDED_BY(mutex_) = 0;
  std::vector<Awaited> awaited_ KVFERRY_GUARDED_BY(mutex_);  // By request.
  std::vector<Moving> moving_ KVFERRY_GUARDED_BY(mutex_);    // By move.
};

}  // namespace kvferry::engine
