// RequestTable: the mover's state of unfinished requests, and of the blocks they are at work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvferry/policy.h"
#include "kvferry/requests.h"
#include "kvferry/status.h"

#include "engine/block_record.h"
#include "engine/call.h"

namespace kvferry::engine {

// Names nothing, in lists through numbers.
inline constexpr std::uint32_t kNone = 0xffffffff;

// A request works on a window of its blocks: from the first that is not seen to, at most this many.
inline constexpr std::uint32_t kWindowBlocks = 64;

struct Request {
  Call call;
  Access access;
  std::uint32_t base = 0;   // Blocks before it have been seen to.
  std::uint32_t next = 0;   // The next block to begin with.
  std::uint32_t limit = 0;  // Blocks from here on are not ready: the first that failed.
  RecordIndex newest =
      kNoRecord;           // What a put last stored or found, to be checked: it may be gone.
  std::uint64_t done = 0;  // From `base` on, a bit for each block that has been seen to.
  std::uint32_t operations = 0;
  std::uint32_t first_operation = kNone;
  std::uint32_t stored = 0;
  std::uint64_t loaded_bytes = 0;
  std::uint64_t departures = 0;                 // Of any block, before it began.
  MissReason next_missing = MissReason::kNone;  // Of block `limit`.
  StatusCode ending = StatusCode::kOk;          // Not kOk: it ends as soon as it can, for this.
  Status refusal;                               // For people, where the code alone says too little.
  bool is_active = false;
  bool is_announced = false;   // The policy has heard of its leading hits.
  bool is_queued = false;      // In the list of requests to go on with.
  bool is_over_quota = false;  // Of a Persist: it ends for that.
  std::uint32_t next_queued = kNone;
  // Handles of a Pin, in the order of its keys.
  std::uint32_t first_handle = kNone;
  std::uint32_t last_handle = kNone;

  std::uint32_t ready() const { return base < limit ? base : limit; }
};

// One block of a request, from its beginning to its end.
struct Operation {
  enum class Stage : std::uint8_t {
    kFree,
    kWaiting,     // For a host copy that something else fills.
    kReady,       // To be copied out of host memory, once there is a job for it.
    kFilling,     // A put's copy into host memory.
    kReading,     // A get's copy out of it.
    kErasing,     // Its row's deletion is to become durable.
    kPersisting,  // Its copy in the NVMe tier is.
  };
  Stage stage = Stage::kFree;
  bool is_from_nvme = false;
  bool was_here = false;  // kFilling: the block is remembered.
  std::uint32_t request = 0;
  std::uint32_t index = 0;  // Of the block among the request's keys.
  RecordIndex record = kNoRecord;
  std::uint32_t next_in_request = kNone;
  std::uint32_t previous_in_request = kNone;
  std::uint32_t filler = kNone;        // kWaiting: what it waits for.
  std::uint32_t next_waiter = kNone;   // kWaiting, or in an OperationList: the next one.
  std::uint32_t first_waiter = kNone;  // kFilling: who waits for this one.
  std::uint64_t erasure = 0;           // kErasing, kPersisting: deletions that are to be durable.
  std::uint64_t victim = 0;            // kErasing: whose rows are to go.
};

// A list of operations through their next_waiter, first come, first served.
struct OperationList {
  std::uint32_t first = kNone;
  std::uint32_t last = kNone;  // Of an empty list: anything.
};

// Fixed tables; what is taken is given back. A request may take `kFairShare` operations at least,
// and a whole window while more than half are free.
//
// For the mover thread.
class RequestTable {
 public:
  static constexpr std::uint32_t kFairShare = 4;

  static std::uint32_t OperationsMax(std::uint32_t requests_max);
  explicit RequestTable(std::uint32_t requests_max);

  std::uint32_t requests_max() const { return static_cast<std::uint32_t>(requests_.size()); }
  std::uint32_t operations_max() const { return static_cast<std::uint32_t>(operations_.size()); }
  Request& operator[](std::uint32_t request) { return requests_[request]; }
  const Request& operator[](std::uint32_t request) const { return requests_[request]; }
  Operation& operation(std::uint32_t number) { return operations_[number]; }
  const Operation& operation(std::uint32_t number) const { return operations_[number]; }
  std::uint32_t active() const noexcept { return active_; }
  std::uint32_t operations_in_use() const {
    return operations_max() - static_cast<std::uint32_t>(free_.size());
  }

  void Begin(std::uint32_t request, const Call& call);
  void End(std::uint32_t request);
  bool CanBegin(const Request& request) const;
  // A new operation for the request's next block, which it moves past.
  std::uint32_t BeginNext(std::uint32_t request);
  void EndOperation(std::uint32_t number);
  // An operation is in one list at most.
  void Append(OperationList& list, std::uint32_t number);
  std::uint32_t TakeFirst(OperationList& list);  // It must not be empty.
  // Past the request's next block, without an operation; returns its index.
  std::uint32_t SkipNext(Request& request);
  // The block has been seen to; moves the window on.
  void MarkDone(Request& request, std::uint32_t index);
  // Block `index` is not ready, and so none after it.
  void Limit(Request& request, std::uint32_t index, MissReason reason);

  // Requests to go on with, first come, first served. A request is queued once at most.
  void Queue(std::uint32_t request);
  std::uint32_t TakeQueued();  // kNone: there is none.
  std::uint32_t queued() const noexcept { return queued_; }

 private:
  std::vector<Request> requests_;
  std::vector<Operation> operations_;
  std::vector<std::uint32_t> free_;
  std::uint32_t active_ = 0;
  std::uint32_t queued_ = 0;
  std::uint32_t first_queued_ = kNone;
  std::uint32_t last_queued_ = kNone;
};

}  // namespace kvferry::engine
