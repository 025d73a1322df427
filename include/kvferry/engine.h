// Engine: stores KV blocks in tiers and gives them back; with its completion queues and handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kvferry/device.h"
#include "kvferry/export.h"
#include "kvferry/namespace.h"
#include "kvferry/options.h"
#include "kvferry/requests.h"
#include "kvferry/stats.h"
#include "kvferry/status.h"
#include "kvferry/types.h"

namespace kvferry {

// Where finished requests turn up. Any number of requests may share one.
//
// Thread-compatible: one thread polls at a time; any may call Wake. Bounded: a request that would
// overflow it is refused at submission, so a completion is never lost and never waits for room. May
// outlive its engine: what was not polled stays there.
class KVFERRY_EXPORT CompletionQueue {
 public:
  // Cancels its unfinished requests and waits for their ends, a moment: memory that they name may
  // go after it. What Pins hold whose completions were not polled is let go.
  virtual ~CompletionQueue() = default;
  // Writes what has ended, oldest first, and returns how many. Never blocks.
  virtual std::size_t Poll(std::span<Completion> completions) = 0;
  // Blocks until Poll would return something. kDeadlineExceeded if nothing has ended by then,
  // kCancelled after a Wake. An engine that closes ends its requests, and wakes nobody who has
  // none.
  virtual Status Wait(Instant deadline) = 0;
  // Ends the Wait that is under way, or else the next one that finds nothing; so a thread that
  // polls can be stopped.
  virtual void Wake() = 0;
};

// What the layer group of a namespace needs to be stored.
struct NamespaceOptions {
  std::uint32_t block_bytes = 0;  // Of every block, in host form; 4 KiB to 64 MiB.
  // Blocks of namespaces with the same tenant number share a quota. 0: without one.
  std::uint32_t tenant = 0;
  std::uint64_t host_quota_bytes = ~std::uint64_t{0};  // The latest one given for a tenant counts.
  std::uint64_t nvme_quota_bytes = ~std::uint64_t{0};
};

namespace engine {
class EngineFront;
}  // namespace engine

// Keeps one block in host memory, at one address, for as long as it lives. Empty when
// default-constructed or moved from. Move-only. May outlive its engine, all of whose host memory
// then stays taken until its last handle is released.
//
// Thread-compatible.
class KVFERRY_EXPORT BlockHandle {
 public:
  BlockHandle() noexcept = default;
  BlockHandle(const BlockHandle&) = delete;
  BlockHandle& operator=(const BlockHandle&) = delete;
  BlockHandle(BlockHandle&& other) noexcept;
  BlockHandle& operator=(BlockHandle&& other) noexcept;
  ~BlockHandle() { Release(); }

  bool is_empty() const noexcept { return front_ == nullptr; }
  // The block's bytes; they do not change while the handle lives. Empty for an empty handle.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  void Release() noexcept;

 private:
  friend class engine::EngineFront;
  std::shared_ptr<engine::EngineFront> front_;
  std::uint32_t entry_ = 0;
  std::span<const std::byte> bytes_;
};

// Owns the tiers, the block table, the policies and the mover thread.
//
// Thread-safe. Nothing here blocks except Open(), Close() and the destructor. Every request that
// was given a ticket ends exactly once, in its queue, by its deadline plus 100 ms at the latest. A
// request that is refused (an error instead of a ticket) leaves nothing behind:
// kInvalidArgument for what is wrong with it, kResourceExhausted when a table or the queue is full
// (try again after a completion), kUnavailable once Close() has begun.
class KVFERRY_EXPORT Engine final {
  struct Token {};  // Only Open can name it.

 public:
  // Takes the memory and starts the mover thread; within a second whatever the size.
  // kInvalidArgument as EngineOptions::Validate(), and for host.bytes above what the process may
  // use; kResourceExhausted if the memory is not to be had.
  static Result<std::unique_ptr<Engine>> Open(const EngineOptions& options);

  Engine(Token token, std::shared_ptr<engine::EngineFront> front);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();  // Close(), with a failure logged instead of returned.

  // Makes blocks of this namespace storable. The same description gives the same handle; other
  // block_bytes or another tenant for it are kInvalidArgument. kUnavailable once Close() has begun.
  Result<NamespaceHandle> AddNamespace(const Namespace& description,
                                       const NamespaceOptions& options);
  // After it returns no block stored before is matched, nor served by a completion that comes then,
  // whenever its request was made; what earlier puts have not finished is discarded, and their
  // memory follows in the background. Handles stay as they are. Later puts start anew.
  // kUnavailable while the remains of an earlier call are still being removed, and once Close() has
  // begun.
  Status EraseNamespace(NamespaceHandle in);

  // For requests of this engine. kInvalidArgument unless it is to have 1 to 1,048,576 entries;
  // kUnavailable once Close() has begun.
  Result<std::unique_ptr<CompletionQueue>> CreateCompletionQueue(std::uint32_t entries_max);

  // Reads `keys` as one prefix. A miss is a value, not an error; asking keeps nothing resident and
  // touches nothing. Under a handle of no namespace nothing is found (kOtherNamespace). Any number
  // of threads at once; never blocks on a transfer.
  PrefixMatch Match(NamespaceHandle in, std::span<const BlockKey> keys) const;

  Result<Ticket> Put(const PutRequest& request, CompletionQueue& queue);
  Result<Ticket> Get(const GetRequest& request, CompletionQueue& queue);
  Result<Ticket> Prefetch(const KeysRequest& request, CompletionQueue& queue);
  // Completes when the leading blocks that are there lie in host memory and are held; Collect()
  // hands them out. What is not collected is let go by Discard() or Close().
  Result<Ticket> Pin(const KeysRequest& request, CompletionQueue& queue);
  // Blocks are gone when it completes; with an NVMe tier a restart does not find them either.
  Result<Ticket> Erase(const KeysRequest& request, CompletionQueue& queue);

  // Makes the leading blocks that are there durable, past admission and write budget, and keeps
  // them in the NVMe tier until Unpersist or Erase: when it completes, blocks_ready of them survive
  // the process and, with drives that do what they say, a power cut. kResourceExhausted where they
  // would take more than nvme.protected_percent of the tier or their tenant's nvme_quota_bytes, and
  // nothing has changed then, unless others of the tenant came first meanwhile; kUnavailable while
  // the tier is off. One that ended early may have persisted some of its blocks. kInvalidArgument
  // without an NVMe tier.
  Result<Ticket> Persist(const KeysRequest& request, CompletionQueue& queue);
  // The blocks may leave again, like others. After a crash they may still be persisted.
  Result<Ticket> Unpersist(const KeysRequest& request, CompletionQueue& queue);

  // With hbm.mode "attached": blocks from and to a server's own tensors on a GPU. Without it the
  // calls are kInvalidArgument; kUnavailable, with the reason, where the GPU is not used or lost.

  // Makes blocks of these tensors known. They stay the server's, and must not be freed before
  // UnregisterTensors() or Close(). kInvalidArgument, saying which number is wrong.
  Result<TensorsHandle> RegisterTensors(const DeviceTensors& tensors);
  // kUnavailable as long as unfinished requests name them; kInvalidArgument for a stale handle.
  Status UnregisterTensors(TensorsHandle tensors);
  // As Put and Get. `producer` and `last_user` are touched inside the call only, on the calling
  // thread; a stream under capture for a CUDA graph and the legacy default stream are refused.
  Result<Ticket> PutFromDevice(const DevicePutRequest& request, CompletionQueue& queue);
  Result<Ticket> GetToDevice(const DeviceGetRequest& request, CompletionQueue& queue);
  // On the thread that works with `stream`: what is queued there from now on finds this layer of
  // all blocks of a GetToDevice in place. Never blocks. kUnavailable as long as the layer's copies
  // are not queued themselves: try again. kDataLoss where not every block was there, kDeviceError
  // where one could not be copied; kInvalidArgument for another ticket, and for one whose place a
  // later request to the device has taken. Needs no wait once the request has ended.
  Status WaitLayer(Ticket ticket, std::uint32_t layer, NativeStream stream);

  // The handles of a completed Pin, in the order of its keys: as many as its completion said
  // (`handles` must have just that size, all of them empty). Once for a ticket; kInvalidArgument
  // for a stale one.
  Status Collect(Ticket ticket, std::span<BlockHandle> handles);
  // Lets go of the blocks of a completed Pin that will not be collected. A stale one is no error.
  void Discard(Ticket ticket);

  // Asks a request to end early, with kCancelled. Its completion still comes, and tells what was
  // done. A ticket that has ended is no error.
  void Cancel(Ticket ticket);

  EngineStats Stats() const;

  // Refuses new requests, ends the unfinished ones (demand may finish until close_deadline_ms, the
  // rest is cancelled), stops the mover. Handles stay as they are. Idempotent.
  Status Close();

 private:
  std::shared_ptr<engine::EngineFront> front_;
};

}  // namespace kvferry
