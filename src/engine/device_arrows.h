// DeviceArrows: the seam to the two arrows between a server's tensors on a GPU and host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/device.h"
#include "kvferry/stats.h"
#include "kvferry/status.h"
#include "kvferry/types.h"

#include "engine/transfer_scheduler.h"

namespace kvferry::engine {

// One block's copy, either way.
struct DeviceCopy {
  Arrow arrow = Arrow::kOffloadHbmToHost;
  TransferClass transfer_class = TransferClass::kDemand;
  Instant deadline;
  std::uint32_t request = 0;
  std::uint32_t operation = 0;
  std::uint32_t tensors = 0;
  std::uint32_t event = 0;
  const DeviceBlock* block = nullptr;  // Borrowed until the end.
  std::byte* host = nullptr;           // So is this, of one block's size.
};

enum class DeviceEnd : std::uint8_t {
  kDone,
  kWithdrawn,  // By Cancel.
  kFailed,
  kLost,         // The device is.
  kLostInDoubt,  // And it may still touch the host's side as long as the process lives.
};

// Is told the end of copies.
class DeviceSink {
 public:
  virtual ~DeviceSink() = default;
  // Once for each copy that was added. From here on nothing touches either side, unless in doubt.
  virtual void OnDeviceCopied(std::uint32_t operation, DeviceEnd end) noexcept = 0;
};

// A build without CUDA's headers has this seam, and nothing behind it. Engine::WaitLayer and its
// neighbours have the contract of the callers' part.
class DeviceArrows {
 public:
  virtual ~DeviceArrows() = default;

  // For any thread -----------------------------------------------------------------------------
  virtual Result<TensorsHandle> Register(const DeviceTensors& tensors) = 0;
  virtual Status Unregister(TensorsHandle tensors) = 0;
  // What a request is about: tensors, where its blocks lie there, and the stream to be waited for.
  struct Wish {
    TensorsHandle tensors;
    std::span<const DeviceBlock> blocks;
    NativeStream stream = nullptr;
    bool needs_stream = false;
    std::uint32_t block_bytes = 0;
  };
  struct Admitted {
    std::uint32_t tensors = 0;
    std::uint32_t event = 0;
  };
  // Checks it, and keeps the tensors until Release. Records the stream's event.
  virtual Result<Admitted> Admit(const Wish& wish) = 0;
  virtual void Release(const Admitted& admitted) = 0;
  // WaitLayer() knows the ticket from here on, until a later request takes its place. A ticket of
  // generation 0 is of a put, which nobody waits for: it just takes the place.
  virtual void Begin(Ticket ticket, std::uint32_t blocks, const Admitted& admitted) = 0;
  virtual Status WaitLayer(Ticket ticket, std::uint32_t layer, NativeStream stream) = 0;

  // For the mover thread -----------------------------------------------------------------------
  // Takes up a copy; it starts with Start. Of one operation at most one at a time.
  virtual void Add(const DeviceCopy& copy) = 0;
  // Copies of the request end as soon as they can; the sink is told by a later Step.
  virtual void Cancel(std::uint32_t request) = 0;
  // A block of the request will not be in place: WaitLayer() says so from here on.
  virtual void NoteMissing(std::uint32_t request) = 0;
  // Every copy of the request has ended. `is_complete`: all of its blocks are in place.
  virtual void EndRequest(std::uint32_t request, const Admitted& admitted, bool is_complete) = 0;
  // Tells the sink what has ended; how many copies.
  virtual std::size_t Step(Instant now, DeviceSink& sink) = 0;
  // Starts what waits, as far as there is room.
  virtual void Start(Instant now) = 0;
  virtual Instant next_deadline() const = 0;
  virtual void AddTo(EngineStats& stats) const = 0;
  // Ends all use of the device: calls of other threads are refused from here on. Nothing may be
  // unfinished.
  virtual void End() = 0;
};

}  // namespace kvferry::engine
