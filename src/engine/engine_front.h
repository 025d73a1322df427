// EngineFront: what stands between callers' threads and the mover thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "kvferry/engine.h"

#include "base/mutex.h"
#include "engine/call.h"
#include "engine/completion_queue.h"
#include "engine/copy_arena.h"
#include "engine/device_opening.h"
#include "engine/engine_core.h"
#include "engine/mover_bell.h"
#include "engine/namespace_table.h"
#include "engine/nvme_keeper.h"
#include "tiers/host/host_slabs.h"
#include "tiers/host/page_toucher.h"

namespace kvferry::engine {

// Checks requests, keeps their tickets, hands them to the mover and hands completions back. One
// lock for all of that, never held over a copy; the completion queues' come after it in the order.
//
// Thread-safe as Engine is. Close() comes before its last owner lets go.
class EngineFront final : private RequestSink,
                          public QueueOwner,
                          public std::enable_shared_from_this<EngineFront> {
  struct Token {};  // Only Open can name it.

 public:
  // `seams` is for tests, and for Engine as it is by default. Handles share it: what they need is
  // there until the last of them is gone.
  static Result<std::shared_ptr<EngineFront>> Open(const EngineOptions& options,
                                                   const DeviceSeams& seams = {});
  EngineFront(Token token, const EngineOptions& options);
  EngineFront(const EngineFront&) = delete;
  EngineFront& operator=(const EngineFront&) = delete;
  ~EngineFront() override;

  Result<NamespaceHandle> AddNamespace(const Namespace& description,
                                       const NamespaceOptions& options);
  Status EraseNamespace(NamespaceHandle in);
  Result<std::unique_ptr<CompletionQueue>> CreateCompletionQueue(std::uint32_t entries_max);
  PrefixMatch Match(NamespaceHandle in, std::span<const BlockKey> keys) const;

  Result<Ticket> Put(const PutRequest& request, CompletionQueue& queue);
  Result<Ticket> Get(const GetRequest& request, CompletionQueue& queue);
  Result<Ticket> Name(Call::Kind kind, const KeysRequest& request, CompletionQueue& queue);

  Result<TensorsHandle> RegisterTensors(const DeviceTensors& tensors);
  Status UnregisterTensors(TensorsHandle tensors);
  Result<Ticket> PutFromDevice(const DevicePutRequest& request, CompletionQueue& queue);
  Result<Ticket> GetToDevice(const DeviceGetRequest& request, CompletionQueue& queue);
  Status WaitLayer(Ticket ticket, std::uint32_t layer, NativeStream stream);

  Status Collect(Ticket ticket, std::span<BlockHandle> handles);
  void Discard(Ticket ticket) override;
  void Cancel(Ticket ticket);
  void ReleaseHandle(std::uint32_t handle) noexcept;
  void EndAllOf(const BoundedCompletionQueue& queue) override;

  EngineStats Stats() const;
  Status Close();

 private:
  enum class State : std::uint8_t { kFree, kActive, kHeld };
  struct Slot {
    State state = State::kFree;
    bool is_cancel_wanted = false;
    bool is_abandoned = false;  // Its queue goes: nobody will hear of its end.
    std::uint32_t generation = 0;
    BoundedCompletionQueue* queue = nullptr;
    std::uint32_t first_handle = kNone;
    std::uint32_t handles = 0;
    NamespaceHandle in;
    std::uint32_t erasures = 0;  // Of the namespace, when the call was made.
    bool is_read = false;        // What it found may be taken back by EraseNamespace.
  };
  struct Inbox {
    std::vector<std::pair<std::uint32_t, Call>> calls;
    std::vector<std::uint32_t> cancels;
    std::vector<std::uint32_t> releases;
  };

  struct Ended {
    std::uint32_t request = 0;
    Completion completion;
    std::uint32_t first_handle = kNone;
  };

  // kUnavailable once Close() has begun.
  Status CheckIsOpen() const KVFERRY_REQUIRES(mutex_);
  Result<Call> CallOf(Call::Kind kind,
                      NamespaceHandle in,
                      std::span<const BlockKey> keys,
                      const RequestOptions& options) const;
  Result<Ticket> Submit(const Call& call, CompletionQueue& queue);
  // Ok where there is a device; else why not.
  Status CheckDevice() const;
  Result<Ticket> SubmitToDevice(Call call, const DeviceArrows::Wish& wish, CompletionQueue& queue);
  void CancelSlot(std::uint32_t entry) KVFERRY_REQUIRES(mutex_);
  bool IsCurrent(Ticket ticket) const KVFERRY_REQUIRES(mutex_);
  static bool IsCancelWanted(const Slot& slot) {
    return slot.state == State::kActive && slot.is_cancel_wanted;
  }
  void ReleaseHandles(std::uint32_t first_handle) KVFERRY_REQUIRES(mutex_);

  // Starts the mover, and returns once it has what it needs.
  Status StartMover();
  void RunMover();
  void TellBegun(const Status& status);
  void MoveUntilClosed();
  // Opens the GPU, on the mover thread. An error where it is required.
  Status OpenDeviceIfWanted();
  // Hands the core what callers have asked for; whether that was anything.
  bool TakeInbox();
  // Hands callers the completions of the last step, with the numbers that count them.
  void Deliver();
  // What a namespace held before it was erased is not served by a completion that comes later.
  void TakeBackIfErased(const Slot& slot, Ended& ended) KVFERRY_REQUIRES(mutex_);
  // Ends what Close does not wait for; whether the mover may stop.
  bool IsDone(Instant now);
  bool HasWaitedLongEnough(Instant now);

  void OnRequestDone(std::uint32_t request,
                     const Completion& completion,
                     std::uint32_t first_handle) noexcept override;

  EngineOptions options_;
  NamespaceTable namespaces_;
  MoverBell bell_;
  std::unique_ptr<tiers::HostSlabs> slabs_;
  std::unique_ptr<tiers::PageToucher> toucher_;  // Null: pages come when they are touched.
  std::unique_ptr<CopyArena> arena_;
  DeviceSeams seams_;
  std::unique_ptr<DeviceArrows> device_;  // Null: no GPU is used. Made before Open returns.
  Status device_status_;                  // Why there is none.
  std::unique_ptr<EngineCore> core_;
  std::unique_ptr<NvmeKeeper> nvme_;  // Null: no NVMe tier.

  mutable Mutex mutex_;
  std::vector<Slot> slots_ KVFERRY_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> free_ KVFERRY_GUARDED_BY(mutex_);
  Inbox inbox_ KVFERRY_GUARDED_BY(mutex_);
  EngineStats stats_ KVFERRY_GUARDED_BY(mutex_);
  std::string nvme_off_reason_ KVFERRY_GUARDED_BY(mutex_);
  ConditionVariable begun_;
  std::optional<Status> has_begun_ KVFERRY_GUARDED_BY(mutex_);  // The mover, and how that went.
  std::uint64_t refused_ KVFERRY_GUARDED_BY(mutex_) = 0;
  bool is_closing_ KVFERRY_GUARDED_BY(mutex_) = false;
  Instant close_deadline_ KVFERRY_GUARDED_BY(mutex_);

  Inbox taken_;               // The mover's; changes places with the inbox.
  std::vector<Ended> ended_;  // The mover's; of the step at hand.
  enum class Closing : std::uint8_t { kNo, kDemandOnly, kNothing };
  Closing closing_ = Closing::kNo;  // The mover's.
  bool is_stalled_ = false;         // The mover's, for Close: memory that a drive may write stays.
  Mutex close_mutex_;               // One Close at a time; comes before mutex_.
  std::thread mover_;
};

}  // namespace kvferry::engine
