// EngineCore: requests as a whole, from their first block to their completion.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "engine/engine_core.h"

namespace kvferry::engine {
namespace {

// Blocks of one request that are begun before others have their turn.
constexpr std::uint32_t kBegunMax = 256;
// Keys whose places in the tables are asked for together: most of what a place costs is to find its
// page, and the processor finds several at a time. The run after the one at hand is on its way too.
// Not earlier: copies drive what is not used soon out of the caches.
constexpr std::uint32_t kKeysAtOnce = 16;

bool IsGetLike(const Call& call) {
  return call.kind == Call::Kind::kGet || call.kind == Call::Kind::kPrefetch ||
         call.kind == Call::Kind::kPin;
}

}  // namespace

void EngineCore::PrefetchKeys(const Request& request, std::uint32_t begun) {
  const std::span<const BlockKey> keys = request.call.keys;
  const std::size_t begin = request.next + (begun == 0 ? 0 : kKeysAtOnce);
  const std::size_t end = std::min<std::size_t>(request.next + 2 * kKeysAtOnce, keys.size());
  for (std::size_t i = begin; i < end; ++i) {
    book_.Prefetch(keys[i]);
  }
  // What is new is looked for in every line that keys of its own may have overflown to.
  const std::size_t begins = std::min<std::size_t>(request.next + kKeysAtOnce, keys.size());
  for (std::size_t i = request.next; i < begins; ++i) {
    book_.index().PrefetchOverflow(keys[i]);
  }
}

void EngineCore::Advance(std::uint32_t number) {
  Request& request = requests_[number];
  if (request.is_over_quota) {
    EndEarly(number, StatusCode::kResourceExhausted);
  }
  const bool is_get = IsGetLike(request.call);
  const bool is_prefix = is_get || request.call.kind == Call::Kind::kPersist;
  const auto end = [&] {
    return is_prefix ? request.limit : static_cast<std::uint32_t>(request.call.keys.size());
  };
  if (is_get && !request.is_announced && request.ending == StatusCode::kOk) {
    Announce(request);
  }
  std::uint32_t begun = 0;
  while (request.ending == StatusCode::kOk && request.next < end()) {
    if (begun++ == kBegunMax) {
      requests_.Queue(number);
      return;
    }
    if (!requests_.CanBegin(request)) {
      if (request.operations == 0) {
        Stall(number);
      }
      break;  // Else the end of one of its own goes on with it.
    }
    if (!is_get && begun % kKeysAtOnce == 1) {
      PrefetchKeys(request, begun - 1);
    }
    const Progress progress = Begin(number);
    if (progress == Progress::kStalled) {
      Stall(number);
      break;
    }
  }
  if (request.call.is_device && request.limit < request.call.keys.size()) {
    device_->NoteMissing(number);
  }
  // One that was queued meanwhile has its turn again, and ends then.
  if (request.operations == 0 && !request.is_queued &&
      (request.ending != StatusCode::kOk || request.next >= end())) {
    Finish(number);
  }
}

// Whether what the request has found may not be served any more.
bool EngineCore::IsOutlived(const Call& call) const {
  return IsGetLike(call) && call.erasures != namespaces_.erasures(call.in);
}

EngineCore::Progress EngineCore::Begin(std::uint32_t number) {
  switch (requests_[number].call.kind) {
    case Call::Kind::kPut:
      return BeginPut(number);
    case Call::Kind::kErase:
      return BeginErase(number);
    case Call::Kind::kPersist:
      return BeginPersist(number);
    case Call::Kind::kUnpersist:
      return BeginUnpersist(number);
    case Call::Kind::kGet:
    case Call::Kind::kPrefetch:
    case Call::Kind::kPin:
      break;
  }
  return BeginGet(number);
}

void EngineCore::Stall(std::uint32_t number) {
  if (std::find(stalled_.begin(), stalled_.end(), number) == stalled_.end()) {
    KVFERRY_CHECK(stalled_.size() < requests_.requests_max());
    stalled_.push_back(number);
  }
}

// Of what a put has stored or found, some may have left for what came after it. Only looked for
// where anything has left: a put that finds room is none the slower.
void EngineCore::RecheckPut(Request& request) {
  const Call& call = request.call;
  if (request.ready() == 0 || (request.departures == book_.departures() &&
                               call.erasures == namespaces_.erasures(call.in))) {
    return;
  }
  const PrefixMatch there = Match(call.in, call.keys.first(request.ready()));
  if (there.next_missing != MissReason::kNone) {
    requests_.Limit(request, there.blocks(), there.next_missing);
  }
}

// Of what a prefetch has brought up, some may have left host memory since, and may be in NVMe.
void EngineCore::RecheckPrefetch(Request& request) {
  const PrefixMatch there = Match(request.call.in, request.call.keys.first(request.ready()));
  if (there.host_blocks < request.ready()) {
    requests_.Limit(request, there.host_blocks,
                    there.nvme_blocks > 0 ? MissReason::kEvicted : there.next_missing);
  }
}

void EngineCore::Finish(std::uint32_t number) {
  Request& request = requests_[number];
  if (IsOutlived(request.call)) {
    requests_.Limit(request, 0, MissReason::kErased);
  } else if (request.call.kind == Call::Kind::kPut) {
    RecheckPut(request);
  } else if (request.call.kind == Call::Kind::kPrefetch) {
    RecheckPrefetch(request);
  }
  Completion completion;
  completion.status = request.refusal.ok() ? endings_[static_cast<std::size_t>(request.ending)]
                                           : std::exchange(request.refusal, Status::Ok());
  completion.blocks_ready = request.ready();
  completion.blocks_stored = request.stored;
  if (completion.blocks_ready < request.call.keys.size()) {
    completion.next_missing =
        request.next_missing == MissReason::kNone ? MissReason::kTooLate : request.next_missing;
  }
  // Blocks of a Pin past the first missing one were held in vain.
  std::uint32_t kept = kNone;
  std::uint32_t handle = request.first_handle;
  std::uint32_t first_kept = kNone;
  while (handle != kNone) {
    const std::uint32_t next = handles_[handle].next;
    if (handles_[handle].index < completion.blocks_ready) {
      first_kept = first_kept == kNone ? handle : first_kept;
      kept = handle;
    } else {
      if (kept != kNone) {
        handles_[kept].next = kNone;
      }
      LetGo(handle);
    }
    handle = next;
  }
  if (request.call.is_device) {
    device_->EndRequest(number, {.tensors = request.call.tensors, .event = request.call.event},
                        completion.blocks_ready == request.call.keys.size());
  }
  requests_.End(number);
  ++counts_.requests_ended;
  const auto stalled = std::find(stalled_.begin(), stalled_.end(), number);
  if (stalled != stalled_.end()) {
    stalled_.erase(stalled);
  }
  has_moved_ = true;
  sink_.OnRequestDone(number, completion, first_kept);
}

void EngineCore::EndExpired(Instant now) {
  next_deadline_ = Instant::max();
  for (std::uint32_t number = 0; number < requests_.requests_max(); ++number) {
    const Request& request = requests_[number];
    if (!request.is_active || request.ending != StatusCode::kOk) {
      continue;
    }
    if (request.call.deadline <= now) {
      ++counts_.deadlines_missed;
      EndEarly(number, StatusCode::kDeadlineExceeded);
    } else {
      next_deadline_ = std::min(next_deadline_, request.call.deadline);
    }
  }
}

void EngineCore::EndEarly(std::uint32_t number, StatusCode code) {
  Request& request = requests_[number];
  if (!request.is_active || request.ending != StatusCode::kOk) {
    return;
  }
  request.ending = code;
  counts_.cancelled += code == StatusCode::kCancelled ? 1 : 0;
  // What only waits ends now; a copy of the caller's memory has to be waited for, until its worker
  // sees that it may leave off. Others may wait for a block that a put brings.
  bool is_waited_for = false;
  std::uint32_t operation = request.first_operation;
  while (operation != kNone) {
    const std::uint32_t next = requests_.operation(operation).next_in_request;
    is_waited_for = is_waited_for || requests_.operation(operation).first_waiter != kNone;
    CancelDurable(operation);
    // Without a filler it is being woken at this moment, and will be told.
    if (requests_.operation(operation).stage == Operation::Stage::kWaiting &&
        requests_.operation(operation).filler != kNone) {
      Detach(operation);
      EndOperation(operation, MissReason::kTooLate);
    }
    operation = next;
  }
  if (request.call.is_device) {
    device_->Cancel(number);
  }
  stops_[number].store(!is_waited_for, std::memory_order_relaxed);
  requests_.Queue(number);
}

void EngineCore::EndForClose(bool only_prefetches) {
  for (std::uint32_t number = 0; number < requests_.requests_max(); ++number) {
    const Request& request = requests_[number];
    if (request.is_active && (!only_prefetches || request.call.kind == Call::Kind::kPrefetch)) {
      EndEarly(number, StatusCode::kCancelled);
    }
  }
}

// Takes a waiting operation out of the list of what it waits for.
void EngineCore::Detach(std::uint32_t number) {
  const Operation& operation = requests_.operation(number);
  const std::uint32_t filler = operation.filler;
  const bool is_transfer = filler < options_.transfers_max;
  const std::uint32_t first =
      is_transfer ? nvme_->waiter(filler)
                  : requests_.operation(filler - options_.transfers_max).first_waiter;
  if (first == number) {
    if (is_transfer) {
      nvme_->SetWaiter(filler, operation.next_waiter);
    } else {
      requests_.operation(filler - options_.transfers_max).first_waiter = operation.next_waiter;
    }
  } else {
    std::uint32_t before = first;
    while (requests_.operation(before).next_waiter != number) {
      before = requests_.operation(before).next_waiter;
      KVFERRY_CHECK(before != kNone);
    }
    requests_.operation(before).next_waiter = operation.next_waiter;
  }
  if (is_transfer && nvme_->waiter(filler) == kNone) {
    nvme_->GiveUpIfQueued(filler);
  }
}

EngineCore::Found EngineCore::Look(const Call& call, const BlockKey& key) {
  const RecordIndex record = book_.index().Find(key);
  if (record == kNoRecord) {
    return {kNoRecord, book_.history().ReasonOf(key)};
  }
  const BlockRecord& block = book_.index()[record];
  if (block.namespace_index != call.in.index && !Adopt(call, record)) {
    const NamespaceHandle other{block.namespace_index};
    if (!namespaces_.IsLost(other.index) || block.namespace_epoch == namespaces_.epoch(other)) {
      return {kNoRecord, MissReason::kOtherNamespace};
    }
    WithdrawAll(record, MissReason::kErased);
    return {kNoRecord, MissReason::kErased};
  }
  if (block.namespace_epoch != call.epoch()) {
    if (block.namespace_epoch != namespaces_.epoch(call.in)) {
      WithdrawAll(record, MissReason::kErased);
    }
    return {kNoRecord, MissReason::kErased};
  }
  return {record, MissReason::kNone};
}

// A block whose namespace is lost is of the one that knows its key, which has the namespace in its
// hash. False: it is another namespace's.
bool EngineCore::Adopt(const Call& call, RecordIndex record) {
  const BlockRecord& block = book_.index()[record];
  const NamespaceHandle lost{block.namespace_index};
  if (!namespaces_.IsLost(lost.index) || block.namespace_epoch != namespaces_.epoch(lost) ||
      block.size_bytes != namespaces_.block_bytes(call.in) ||
      call.epoch() != namespaces_.epoch(call.in)) {
    return false;
  }
  const std::uint32_t tenant = namespaces_.tenant_index(call.in.index);
  host_->ChangeTenant(record, tenant);
  if (nvme_ != nullptr) {
    nvme_->ChangeTenant(record, tenant);
  }
  book_.index().Update(record, [&call](BlockRecord& adopted) {
    adopted.namespace_index = call.in.index;
    adopted.namespace_epoch = call.epoch();
  });
  if (nvme_ != nullptr) {
    nvme_->RecordAgain(record);
  }
  return true;
}

RecordIndex EngineCore::ParentOf(const Request& request, std::uint32_t index) const {
  if (index > 0) {
    const BlockKey& key = request.call.keys[index - 1];
    if (request.newest != kNoRecord) {
      const BlockRecord& newest = book_.index()[request.newest];
      if (newest.is_indexed && newest.key == key) {
        return request.newest;
      }
    }
    return book_.index().Find(key);
  }
  return request.call.has_parent ? book_.index().Find(request.call.parent) : kNoRecord;
}

bool EngineCore::CanExpectRoom() const {
  const bool is_device_busy = device_ != nullptr && device_->next_deadline() != Instant::max();
  return is_device_busy || desk_.pieces_in_flight() > 0 || (nvme_ != nullptr && !nvme_->is_idle());
}

bool EngineCore::MayWaitForRoom(MissReason refusal, const BlockRecord& block) const {
  return (refusal == MissReason::kDropped && CanExpectRoom()) ||
         (refusal == MissReason::kOverQuota && host_->WaitsForOwn(block));
}

// Past the request's next block, which it does not get or store.
void EngineCore::Refuse(Request& request, MissReason reason) {
  const std::uint32_t index = requests_.SkipNext(request);
  requests_.Limit(request, index, reason);
  const auto cause = static_cast<std::size_t>(reason);
  if (request.call.kind == Call::Kind::kPut) {
    ++counts_.puts;
    ++counts_.puts_refused[cause];
  } else if (IsGetLike(request.call)) {
    ++counts_.lookups;
    ++counts_.misses[cause];
  }
}

void EngineCore::CountEnd(const Request& request, const Operation& operation, MissReason reason) {
  const auto cause = static_cast<std::size_t>(reason);
  const bool is_filling = operation.stage == Operation::Stage::kFilling;
  if (request.call.kind == Call::Kind::kPut) {
    ++counts_.puts;
    counts_.puts_refused[cause] += reason != MissReason::kNone ? 1 : 0;
    counts_.puts_stored += reason == MissReason::kNone && is_filling ? 1 : 0;
    counts_.puts_present += reason == MissReason::kNone && !is_filling ? 1 : 0;
    return;
  }
  if (!IsGetLike(request.call)) {
    return;
  }
  ++counts_.lookups;
  counts_.misses[cause] += reason != MissReason::kNone ? 1 : 0;
  counts_.hits_nvme += reason == MissReason::kNone && operation.is_from_nvme ? 1 : 0;
  counts_.hits_host += reason == MissReason::kNone && !operation.is_from_nvme ? 1 : 0;
}

void EngineCore::EndOperation(std::uint32_t number, MissReason reason) {
  const Operation& operation = requests_.operation(number);
  const std::uint32_t request_number = operation.request;
  Request& request = requests_[request_number];
  if (reason == MissReason::kNone && IsOutlived(request.call)) {
    reason = MissReason::kErased;
  }
  CountEnd(request, operation, reason);
  if (reason != MissReason::kNone) {
    requests_.Limit(request, operation.index, reason);
  }
  requests_.MarkDone(request, operation.index);
  requests_.EndOperation(number);
  requests_.Queue(request_number);
}

void EngineCore::WaitFor(std::uint32_t number, RecordIndex record) {
  Operation& operation = requests_.operation(number);
  operation.stage = Operation::Stage::kWaiting;
  operation.record = record;
  operation.filler = book_.index().use(record).filler();
  if (operation.filler < options_.transfers_max) {
    operation.is_from_nvme = true;
    operation.next_waiter = nvme_->waiter(operation.filler);
    nvme_->SetWaiter(operation.filler, number);
    return;
  }
  Operation& filling = requests_.operation(operation.filler - options_.transfers_max);
  operation.next_waiter = filling.first_waiter;
  filling.first_waiter = number;
}

std::uint32_t EngineCore::TakeWaiters(std::uint32_t filler) {
  std::uint32_t first = kNone;
  if (filler < options_.transfers_max) {
    first = nvme_->waiter(filler);
    nvme_->SetWaiter(filler, kNone);
  } else {
    std::swap(first, requests_.operation(filler - options_.transfers_max).first_waiter);
  }
  return first;
}

void EngineCore::WakeWaiters(std::uint32_t first_waiter, MissReason reason) {
  for (std::uint32_t number = first_waiter; number != kNone;
       number = requests_.operation(number).next_waiter) {
    requests_.operation(number).filler = kNone;
  }
  while (first_waiter != kNone) {
    const std::uint32_t number = first_waiter;
    Operation& operation = requests_.operation(number);
    KVFERRY_CHECK(operation.stage == Operation::Stage::kWaiting);
    first_waiter = operation.next_waiter;
    operation.next_waiter = kNone;
    if (reason != MissReason::kNone) {
      EndOperation(number, reason);
    } else {
      ServeFromHost(number);
    }
  }
}

}  // namespace kvferry::engine
