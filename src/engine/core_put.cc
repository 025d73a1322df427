// EngineCore: Put.
#include "base/assert.h"
#include "engine/engine_core.h"

namespace kvferry::engine {
EngineCore::Progress EngineCore::BeginPut(std::uint32_t number) {
  Request& request = requests_[number];
  const Call& call = request.call;
  const BlockKey& key = call.keys[request.next];
  if (request.access.request == 0) {
    request.access.request = ++access_count_;
  }
  if (call.erasures != namespaces_.erasures(call.in) || !call.tiers.Has(TierKind::kHost)) {
    Refuse(request,
           call.tiers.Has(TierKind::kHost) ? MissReason::kErased : MissReason::kNotAllowed);
    return Progress::kNext;
  }
  const auto [found, reason] = Look(call, key);
  if (reason == MissReason::kOtherNamespace) {
    Refuse(request, reason);
    return Progress::kNext;
  }
  if (found != kNoRecord) {
    request.newest = found;
    if (book_.index()[found].host_state == CopyState::kFilling) {
      WaitFor(requests_.BeginNext(number), found);
      return Progress::kNext;
    }
    NoteTouch(request, found);
    requests_.SkipNext(request);
    ++counts_.puts;
    ++counts_.puts_present;
    return Progress::kNext;
  }
  if (!call.is_device && !desk_.HasRoom(CopyJob::Kind::kCopyAndSum)) {
    return Progress::kStalled;
  }
  request.access.now = now_;
  BlockRecord fresh;
  fresh.key = key;
  fresh.size_bytes = call.block_bytes & kBlockSizeMask;
  fresh.namespace_index = call.in.index;
  fresh.namespace_epoch = call.epoch();
  // Without a tier below, what is more than the pool would push out the root of its own path.
  const MissReason obstacle =
      nvme_ == nullptr ? host_->CannotHold(fresh, request.next + 1U) : MissReason::kNone;
  if (obstacle != MissReason::kNone) {
    Refuse(request, obstacle);
    return Progress::kNext;
  }
  const auto reserved = host_->ReserveNew(
      {.access = request.access, .parent = ParentOf(request, request.next)}, fresh);
  if (reserved.record == kNoRecord) {
    if (MayWaitForRoom(reserved.refusal, fresh)) {
      return Progress::kStalled;
    }
    Refuse(request, reserved.refusal);
    return Progress::kNext;
  }
  request.newest = reserved.record;
  BeginFill(number, reserved.record);
  const bool was_here = reason != MissReason::kNeverStored && reason != MissReason::kErased;
  requests_.operation(request.first_operation).was_here = was_here;
  return Progress::kNext;
}

void EngineCore::NoteTouch(const Request& request, RecordIndex record) {
  const BlockRecord& block = book_.index()[record];
  if (options_.admits_on_second_touch && request.call.tiers.Has(TierKind::kNvme) &&
      block.host_state == CopyState::kResident && block.nvme_state == CopyState::kAbsent) {
    host_->WantOffload(record);
  }
}

// Has the request's next block copied into the place that its record was given.
void EngineCore::BeginFill(std::uint32_t number, RecordIndex record) {
  const std::uint32_t taken = requests_.BeginNext(number);
  Operation& operation = requests_.operation(taken);
  operation.stage = Operation::Stage::kFilling;
  operation.record = record;
  book_.index().use(record).set_filler(FillerOf(taken));
  if (requests_[number].call.is_device) {
    AddDeviceCopy(taken, Arrow::kOffloadHbmToHost, TransferClass::kWriteBack);
    return;
  }
  CopyPiece piece;
  piece.source = requests_[number].call.sources[operation.index];
  piece.target = host_->BytesOf(record).data();
  piece.size_bytes = requests_[number].call.block_bytes;
  piece.operation = taken;
  piece.key = book_.index()[record].key;
  piece.stop = &stops_[number];
  desk_.Add(CopyJob::Kind::kCopyAndSum, piece);
}

void EngineCore::OnPutCopied(const CopyPiece& piece) {
  Operation& operation = requests_.operation(piece.operation);
  KVFERRY_CHECK(operation.stage == Operation::Stage::kFilling);
  if (piece.was_stopped) {
    host_->Abandon(operation.record, MissReason::kDropped);
    WakeWaiters(TakeWaiters(FillerOf(piece.operation)), MissReason::kDropped);
    EndOperation(piece.operation, MissReason::kTooLate);
    return;
  }
  Request& request = requests_[operation.request];
  const RecordIndex record = operation.record;
  const BlockRecord& block = book_.index()[record];
  const std::uint32_t waiters = TakeWaiters(FillerOf(piece.operation));
  MissReason reason = MissReason::kNone;
  if (!block.is_indexed || block.namespace_epoch != namespaces_.epoch(request.call.in)) {
    reason = MissReason::kErased;
    host_->Abandon(record, reason);
  } else {
    host_->Publish(record, piece.checksum);
    ++request.stored;
    const bool is_admitted = !options_.admits_on_second_touch || operation.was_here;
    if (request.call.tiers.Has(TierKind::kNvme) && is_admitted) {
      host_->WantOffload(record);
    } else if (!is_admitted) {
      ++counts_.nvme_store.offloads_not_admitted;
    }
  }
  WakeWaiters(waiters, reason);
  EndOperation(piece.operation, reason);
}

void EngineCore::FailPut(std::uint32_t number, MissReason reason, bool is_in_doubt) {
  const RecordIndex record = requests_.operation(number).record;
  const std::uint32_t waiters = TakeWaiters(FillerOf(number));
  if (is_in_doubt) {
    host_->Quarantine(record, reason);
    in_doubt_.push_back(record);
  } else {
    host_->Abandon(record, reason);
  }
  WakeWaiters(waiters, reason);
  EndOperation(number, reason);
}

}  // namespace kvferry::engine
