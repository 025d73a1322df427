// EngineCore: the whole engine but its threads: calls in, steps of given time, completions out.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvferry/requests.h"
#include "kvferry/stats.h"
#include "kvferry/status.h"

#include "engine/block_book.h"
#include "engine/call.h"
#include "engine/copy_desk.h"
#include "engine/device_arrows.h"
#include "engine/durable_namespaces.h"
#include "engine/host_cache.h"
#include "engine/namespace_table.h"
#include "engine/nvme_arrows.h"
#include "engine/request_table.h"
#include "tiers/host/host_slabs.h"

namespace kvferry::engine {

// A block that a completed Pin keeps.
struct HeldBlock {
  RecordIndex record = kNoRecord;
  std::uint32_t index = 0;     // Among the keys of its Pin.
  std::uint32_t next = kNone;  // Of the same Pin, in the order of its keys.
  std::span<const std::byte> bytes;
};

// Is told the end of requests.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  // Once for each request, inside Step(). `completion.ticket` is left to the sink. Handles
  // of a Pin, as many as blocks_ready, hang on `first_handle`; each is to be let go by LetGo.
  virtual void OnRequestDone(std::uint32_t request,
                             const Completion& completion,
                             std::uint32_t first_handle) noexcept = 0;
};

// Deterministic: the same calls and steps at the same times, over workers and a ring that do the
// same, give the same end. Never blocks; a step is bounded. What it decides, and in which order:
// docs/architecture.md tells the life of a block.
//
// Thread-confined to the mover thread, except Match() and held().
class EngineCore final : private CopySink, private OnboardSink, private DeviceSink {
  struct Token {};  // Only Create can name it.

 public:
  struct Options {
    std::uint32_t residents_max = 0;    // Blocks in host memory.
    std::uint32_t nvme_blocks_max = 0;  // Blocks in the NVMe tier, if there is one.
    std::uint32_t history_max = 0;
    std::uint32_t requests_max = 0;
    std::uint32_t blocks_per_request_max = 0;
    std::uint32_t handles_max = 0;
    std::uint64_t held_bytes_max = 0;
    std::uint32_t transfers_max = 2;
    std::uint32_t swept_max = 512;  // Records that a step looks at for an erased namespace.
    std::uint64_t seed = 1;
    std::string policy = "leaf-lru";
    bool verify_on_get = false;
    bool has_nvme = false;                  // There is an NVMe tier, though it may be off.
    std::uint64_t write_bytes_per_day = 0;  // 0: no budget.
    bool admits_on_second_touch = false;    // To the NVMe tier.
    // Blocks that wait for it and keep their order.
    std::uint32_t offload_queue_max = HostCache::Options().offload_queue_max;
    std::uint32_t persisted_percent = 50;
  };
  // What it works with; everything must outlive it.
  struct Seams {
    CopyWorkers& workers;
    tiers::HostSlabs& slabs;
    NamespaceTable& namespaces;
    RequestSink& sink;
  };
  // The drives and the manifest of the NVMe tier, while it is on.
  struct NvmeSeams {
    tiers::IoRing& ring;
    tiers::Manifest& manifest;
    tiers::SegmentStore::Options store;
  };

  // kInvalidArgument for a policy that does not exist.
  static Result<std::unique_ptr<EngineCore>> Create(const Options& options, const Seams& seams);
  EngineCore(Token token, const Options& options, const Seams& seams);
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;
  ~EngineCore() override;

  // The NVMe tier goes on, and finds what it held before; it must be off. Blocks until the manifest
  // has told of its segments. The error of the manifest or of a store that does not add up; it is
  // off then.
  Status AttachNvme(const NvmeSeams& seams);
  // Of the tier that is on; null while it is off.
  const NvmeArrows* nvme() const noexcept { return nvme_.get(); }
  // Nothing is begun with it any more.
  void StopNvme();
  // The files of its store are not where a restart would look for them: as StopNvme, and nothing is
  // said to be durable any more. `why` is told.
  void LoseNvme(const Status& why);
  // Ends every Persist that has not ended, with none of its blocks: those that it had seen to are
  // not durable any more.
  void EndPersists(const Status& why);
  // It goes off: its blocks are no hits until it is on again. nvme()->is_quiet() must hold.
  void DetachNvme();
  // The engine closes: what waits to be written down is given up, what was written becomes durable.
  void StopOffloads();

  // Calls that name a device are given from now on. Borrowed; `device` is the mover's as this is.
  void AttachDevice(DeviceArrows& device) { device_ = &device; }
  // A lost device may touch host memory as long as the process lives: it must stay mapped.
  bool is_memory_in_doubt() const noexcept { return is_memory_in_doubt_; }

  // Takes up a call under a number that is not in use. It ends through the sink.
  void Start(std::uint32_t request, const Call& call);
  // Ends it early, with `code` (kCancelled, ...). Nothing happens if it has ended.
  void EndEarly(std::uint32_t request, StatusCode code);
  // Ends early what need not be finished before closing: prefetches, or everything.
  void EndForClose(bool only_prefetches);
  // Gives up a handle.
  void LetGo(std::uint32_t handle);
  // Thread-safe for handles of a completed Pin.
  const HeldBlock& held(std::uint32_t handle) const { return handles_[handle]; }

  // Does what can be done at `now`; whether that was anything. Times must not go back.
  bool Step(Instant now);
  // When a step is needed at the latest if nothing else happens.
  Instant next_deadline() const noexcept {
    const Instant device = device_ == nullptr ? Instant::max() : device_->next_deadline();
    const Instant own = std::min(next_deadline_, device);
    return nvme_ == nullptr ? own : std::min({own, nvme_->next_deadline(), submit_at_});
  }
  // Requests that have not ended.
  std::uint32_t unfinished() const noexcept { return requests_.active(); }
  std::size_t copies_in_flight() const noexcept { return desk_.pieces_in_flight(); }
  // Nothing is under way: no request, copy or transfer, nor a namespace to sweep.
  bool is_idle() const;

  // Thread-safe.
  PrefixMatch Match(NamespaceHandle in, std::span<const BlockKey> keys) const;

  EngineStats Stats() const;
  // Stops the process if anything does not add up. Slow; for tests and the simulation.
  void CheckInvariants() const;

 private:
  struct Found {
    RecordIndex record = kNoRecord;
    MissReason reason = MissReason::kNone;
  };
  enum class Progress : std::uint8_t { kNext, kStalled };

  MissReason ReasonFor(const BlockView& view,
                       NamespaceHandle in,
                       std::uint8_t epoch,
                       const BlockKey& key) const;

  // core_requests.cc: requests as a whole.
  void Advance(std::uint32_t request);
  // Asks for the tables' places of the keys that come next; `begun` of them in this turn.
  void PrefetchKeys(const Request& request, std::uint32_t begun);
  Progress Begin(std::uint32_t request);
  void RecheckPut(Request& request);
  void RecheckPrefetch(Request& request);
  void Finish(std::uint32_t request);
  void EndExpired(Instant now);
  bool IsOutlived(const Call& call) const;
  void Detach(std::uint32_t operation);
  Found Look(const Call& call, const BlockKey& key);
  bool Adopt(const Call& call, RecordIndex record);
  void EndOperation(std::uint32_t operation, MissReason reason);
  void CountEnd(const Request& request, const Operation& operation, MissReason reason);
  void Refuse(Request& request, MissReason reason);
  void WakeWaiters(std::uint32_t first_waiter, MissReason reason);
  std::uint32_t TakeWaiters(std::uint32_t filler);
  std::uint32_t FillerOf(std::uint32_t operation) const {
    return options_.transfers_max + operation;
  }
  void Stall(std::uint32_t request);
  void WaitFor(std::uint32_t operation, RecordIndex record);
  bool CanExpectRoom() const;
  // Whether a block that was refused for this reason may yet find room without anybody's doing.
  bool MayWaitForRoom(MissReason refusal, const BlockRecord& block) const;
  // The parent of block `index`, where it has a record.
  RecordIndex ParentOf(const Request& request, std::uint32_t index) const;

  // core_get.cc: Get, Prefetch and Pin.
  Progress BeginGet(std::uint32_t request);
  void Announce(Request& request);
  Progress BeginOnboard(std::uint32_t request, RecordIndex record);
  // The block is in host memory: copy it out, hold it, or that was all.
  void ServeFromHost(std::uint32_t operation);
  void HoldBlock(std::uint32_t operation);
  Status WhyNotHeld(const Operation& operation) const;
  void ServeReady();
  void OnReadCopied(CopyJob::Kind kind, const CopyPiece& piece);
  void EndRead(std::uint32_t operation, MissReason reason);
  TransferClass ClassOf(const Request& request) const;

  // core_put.cc.
  Progress BeginPut(std::uint32_t request);
  void BeginFill(std::uint32_t request, RecordIndex record);
  void OnPutCopied(const CopyPiece& piece);
  // The place that a put was to fill holds nothing.
  void FailPut(std::uint32_t operation, MissReason reason, bool is_in_doubt);
  // Somebody wants the block, which is in host memory, once more.
  void NoteTouch(const Request& request, RecordIndex record);

  // core_device.cc: what Put and Get do where blocks lie in a server's tensors.
  void AddDeviceCopy(std::uint32_t operation, Arrow arrow, TransferClass transfer_class);
  void OnDeviceCopied(std::uint32_t operation, DeviceEnd end) noexcept override;
  // The checksum of the operation's host copy is wanted, as soon as there is a job for it.
  void QueueSum(std::uint32_t operation);
  void StartSums();
  void OnSummed(const CopyPiece& piece);

  // core_erase.cc.
  Progress BeginErase(std::uint32_t request);
  void WithdrawAll(RecordIndex record, MissReason reason, bool deletes_row = true);
  // Operations of the drives and batches of the manifest.
  std::uint32_t InFlight() const;
  bool Sweep();

  // core_persist.cc: what has to survive a restart before it ends.
  Progress BeginPersist(std::uint32_t request);
  Progress BeginUnpersist(std::uint32_t request);
  bool MayPersist(Request& request);
  void AwaitDurable(std::uint32_t operation);
  void GoOnDurable();
  void GoOnPersisting(std::uint32_t operation);
  void CancelDurable(std::uint32_t operation);
  void ForgetErasures();

  void OnPieceDone(CopyJob::Kind kind, const CopyPiece& piece) noexcept override;
  void OnOnboardEnd(RecordIndex record, std::uint32_t waiter, MissReason reason) noexcept override;
  void OnSuperseded(RecordIndex record) noexcept override;

  Options options_;
  NamespaceTable& namespaces_;
  RequestSink& sink_;
  tiers::HostSlabs& slabs_;
  tiers::IoRing* ring_ = nullptr;
  tiers::Manifest* manifest_ = nullptr;
  BlockBook book_;
  CopyDesk desk_;
  std::unique_ptr<HostCache> host_;
  DurableNamespaces durable_namespaces_;
  std::unique_ptr<NvmeArrows> nvme_;  // Null while the tier is off, or where there is none.
  bool is_nvme_lost_ = false;         // While it goes off.
  DeviceArrows* device_ = nullptr;    // Null: no GPU is used.
  bool is_memory_in_doubt_ = false;
  std::vector<RecordIndex> in_doubt_;  // Whose host copies keep their places for good.
  bool takes_offloads_ = true;
  RequestTable requests_;
  std::vector<HeldBlock> handles_;
  std::uint32_t first_free_handle_ = kNone;
  std::vector<std::uint32_t> stalled_;           // Requests to try again when something has moved.
  std::vector<std::uint32_t> awaiting_durable_;  // Operations.
  OperationList ready_;                          // Those that wait for a copy job.
  OperationList unsummed_;                       // For a checksum's job.
  // How requests end that do not end well, made beforehand: a step allocates nothing.
  std::array<Status, 10> endings_;  // By code.
  bool has_moved_ = false;  // Something was freed or finished since stalled requests were tried.
  std::vector<RecordIndex> path_;  // Scratch of Announce.
  EngineStats counts_;             // The counters that are kept here.
  Instant now_;
  Instant next_deadline_ = Instant::max();
  // By request: its copies are for nobody. Read by the workers.
  std::vector<std::atomic<bool>> stops_;
  Instant submit_at_ = Instant::max();  // What the ring has refused.
  std::uint64_t access_count_ = 0;
  std::uint32_t sweep_position_ = 0;
  std::optional<std::uint16_t> sweeping_;
};

}  // namespace kvferry::engine
