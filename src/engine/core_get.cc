// EngineCore: Get, Prefetch and Pin.
#include "base/assert.h"
#include "engine/engine_core.h"
#include "engine/refusals.h"

namespace kvferry::engine {
namespace {

constexpr std::uint16_t kReadersMax = 0xfff0;

}  // namespace

// Touches the leading blocks that lie in host memory, as one path.
void EngineCore::Announce(Request& request) {
  request.is_announced = true;
  request.access.now = now_;
  request.access.request = ++access_count_;
  path_.clear();
  const std::span<const BlockKey> keys = request.call.keys;
  constexpr std::size_t kAhead = 8;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + kAhead < keys.size()) {
      book_.index().Prefetch(keys[i + kAhead]);
    }
    const RecordIndex record = book_.index().Find(keys[i]);
    if (record == kNoRecord) {
      break;
    }
    const BlockRecord& block = book_.index()[record];
    if (block.host_state != CopyState::kResident ||
        block.namespace_index != request.call.in.index ||
        block.namespace_epoch != request.call.epoch()) {
      break;
    }
    path_.push_back(record);
  }
  if (!path_.empty()) {
    host_->Touch(request.access, path_);
  }
}

TransferClass EngineCore::ClassOf(const Request& request) const {
  if (request.call.kind != Call::Kind::kPrefetch) {
    return TransferClass::kDemand;
  }
  return request.call.has_own_deadline ? TransferClass::kDeadlinePrefetch
                                       : TransferClass::kPromotion;
}

EngineCore::Progress EngineCore::BeginGet(std::uint32_t number) {
  Request& request = requests_[number];
  const Call& call = request.call;
  const auto [record, reason] = Look(call, call.keys[request.next]);
  if (record == kNoRecord) {
    Refuse(request, reason);
    return Progress::kNext;
  }
  const BlockRecord& block = book_.index()[record];
  if (block.is_prefetched && call.kind != Call::Kind::kPrefetch) {
    book_.index().Update(record, [](BlockRecord& changed) { changed.is_prefetched = false; });
    ++counts_.prefetches_used;
  }
  if (block.host_state == CopyState::kResident) {
    if (!call.tiers.Has(TierKind::kHost)) {
      Refuse(request, MissReason::kNotAllowed);
      return Progress::kNext;
    }
    if (call.kind == Call::Kind::kGet && !call.is_device && !desk_.HasRoom(CopyJob::Kind::kCopy)) {
      return Progress::kStalled;
    }
    if (call.kind != Call::Kind::kPrefetch) {
      NoteTouch(request, record);
    }
    const std::uint32_t operation = requests_.BeginNext(number);
    requests_.operation(operation).record = record;
    ServeFromHost(operation);
    return Progress::kNext;
  }
  if (block.host_state == CopyState::kFilling) {
    const std::uint32_t operation = requests_.BeginNext(number);
    WaitFor(operation, record);
    ++counts_.coalesced_reads;
    const std::uint32_t filler = requests_.operation(operation).filler;
    if (filler < options_.transfers_max) {
      nvme_->Raise(filler, ClassOf(request), call.deadline);
    }
    return Progress::kNext;
  }
  if (block.nvme_state != CopyState::kResident || block.host_state != CopyState::kAbsent) {
    // On its way out, or so far only on its way down.
    Refuse(request, MissReason::kEvicted);
    return Progress::kNext;
  }
  return BeginOnboard(number, record);
}

EngineCore::Progress EngineCore::BeginOnboard(std::uint32_t number, RecordIndex record) {
  Request& request = requests_[number];
  const Call& call = request.call;
  const std::uint64_t size = book_.index()[record].size_bytes;
  if (!call.tiers.Has(TierKind::kNvme) || request.loaded_bytes + size > call.load_bytes_max) {
    Refuse(request, MissReason::kNotAllowed);
    return Progress::kNext;
  }
  if (!nvme_->CanOnboard()) {
    return Progress::kStalled;
  }
  // What is more than the pool would push out the root of its own path, on a guess.
  const MissReason obstacle = call.kind == Call::Kind::kPrefetch
                                  ? host_->CannotHold(book_.index()[record], request.next + 1U)
                                  : MissReason::kNone;
  if (obstacle != MissReason::kNone) {
    Refuse(request, obstacle);
    return Progress::kNext;
  }
  request.access.now = now_;
  HostCache::Claim claim;
  claim.access = request.access;
  claim.parent = ParentOf(request, request.next);
  claim.is_needed = call.kind != Call::Kind::kPrefetch;
  claim.reason_to_leave = claim.is_needed ? MissReason::kEvicted : MissReason::kEvictedByPrefetch;
  const auto reserved = host_->ReserveAgain(claim, record);
  if (reserved.record == kNoRecord) {
    if (MayWaitForRoom(reserved.refusal, book_.index()[record])) {
      return Progress::kStalled;
    }
    Refuse(request, reserved.refusal);
    return Progress::kNext;
  }
  request.loaded_bytes += size;
  if (call.kind == Call::Kind::kPrefetch) {
    book_.index().Update(record, [](BlockRecord& block) { block.is_prefetched = true; });
  }
  nvme_->Onboard(record, ClassOf(request), call.deadline);
  WaitFor(requests_.BeginNext(number), record);
  return Progress::kNext;
}

void EngineCore::ServeFromHost(std::uint32_t number) {
  Operation& operation = requests_.operation(number);
  // Whatever becomes of it, it counts as begun.
  operation.stage = Operation::Stage::kWaiting;
  const Call& call = requests_[operation.request].call;
  switch (call.kind) {
    case Call::Kind::kPin:
      HoldBlock(number);
      return;
    case Call::Kind::kGet:
      break;
    default:  // A prefetch has come to its end; for a put the block is there already.
      EndOperation(number, MissReason::kNone);
      return;
  }
  BlockUse& use = book_.index().use(operation.record);
  if (use.readers >= kReadersMax) {
    EndOperation(number, MissReason::kDropped);
    return;
  }
  if (call.is_device && requests_[operation.request].ending != StatusCode::kOk) {
    EndOperation(number, MissReason::kTooLate);  // Its pages are no longer to be written.
    return;
  }
  ++use.readers;
  operation.stage = Operation::Stage::kReady;
  if (call.is_device) {
    if (options_.verify_on_get) {
      QueueSum(number);
    } else {
      AddDeviceCopy(number, Arrow::kOnboardHostToHbm, TransferClass::kDemand);
    }
    return;
  }
  requests_.Append(ready_, number);
  ServeReady();
}

void EngineCore::ServeReady() {
  const CopyJob::Kind kind =
      options_.verify_on_get ? CopyJob::Kind::kCopyAndVerify : CopyJob::Kind::kCopy;
  while (ready_.first != kNone && desk_.HasRoom(kind)) {
    const std::uint32_t number = requests_.TakeFirst(ready_);
    Operation& operation = requests_.operation(number);
    operation.stage = Operation::Stage::kReading;
    const BlockRecord& block = book_.index()[operation.record];
    CopyPiece piece;
    piece.source = host_->BytesOf(operation.record).data();
    piece.target = requests_[operation.request].call.targets[operation.index];
    piece.size_bytes = block.size_bytes;
    piece.operation = number;
    piece.key = block.key;
    piece.checksum = block.checksum;
    piece.stop = &stops_[operation.request];
    desk_.Add(kind, piece);
  }
}

void EngineCore::OnReadCopied(CopyJob::Kind kind, const CopyPiece& piece) {
  KVFERRY_CHECK(requests_.operation(piece.operation).stage == Operation::Stage::kReading);
  if (piece.was_stopped) {
    EndRead(piece.operation, MissReason::kTooLate);
    return;
  }
  const bool is_wrong = kind == CopyJob::Kind::kCopyAndVerify && !piece.is_intact;
  EndRead(piece.operation, is_wrong ? MissReason::kFailedCheck : MissReason::kNone);
}

// Nothing of the operation reads the host copy any more.
void EngineCore::EndRead(std::uint32_t number, MissReason reason) {
  const RecordIndex record = requests_.operation(number).record;
  BlockUse& use = book_.index().use(record);
  KVFERRY_CHECK(use.readers > 0);
  --use.readers;
  if (reason == MissReason::kFailedCheck) {
    ++counts_.failed_checks;
    if (book_.index()[record].is_indexed) {
      WithdrawAll(record, reason);
      EndOperation(number, reason);
      return;
    }
  }
  host_->Settle(record);
  book_.ReleaseIfUnused(record);
  EndOperation(number, reason);
}

Status EngineCore::WhyNotHeld(const Operation& operation) const {
  const Call& call = requests_[operation.request].call;
  const RefusedPin pin{.index = operation.index,
                       .blocks = static_cast<std::uint32_t>(call.keys.size()),
                       .block_bytes = call.block_bytes};
  if (first_free_handle_ == kNone) {
    return HandlesUsedUp(pin, options_.handles_max);
  }
  return book_.index().use(operation.record).handles == HostCache::kHandlesMax
             ? HeldTooOften(pin)
             : HeldTooMuch(pin, host_->held_bytes(), options_.held_bytes_max);
}

void EngineCore::HoldBlock(std::uint32_t number) {
  const Operation operation = requests_.operation(number);
  Request& request = requests_[operation.request];
  if (request.ending != StatusCode::kOk) {
    EndOperation(number, MissReason::kTooLate);
    return;
  }
  if (first_free_handle_ == kNone || !host_->Hold(operation.record, options_.held_bytes_max)) {
    request.refusal = WhyNotHeld(operation);
    EndOperation(number, MissReason::kOverQuota);
    EndEarly(operation.request, StatusCode::kResourceExhausted);
    return;
  }
  const std::uint32_t handle = first_free_handle_;
  first_free_handle_ = handles_[handle].next;
  handles_[handle] = {operation.record, operation.index, kNone, host_->BytesOf(operation.record)};
  // Blocks become ready in about the order of their keys.
  std::uint32_t before = kNone;
  std::uint32_t after = request.first_handle;
  if (request.last_handle != kNone && handles_[request.last_handle].index < operation.index) {
    before = request.last_handle;
    after = kNone;
  }
  while (after != kNone && handles_[after].index < operation.index) {
    before = after;
    after = handles_[after].next;
  }
  handles_[handle].next = after;
  (before == kNone ? request.first_handle : handles_[before].next) = handle;
  request.last_handle = after == kNone ? handle : request.last_handle;
  EndOperation(number, MissReason::kNone);
}

}  // namespace kvferry::engine
