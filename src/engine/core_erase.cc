// EngineCore: Erase, and what is left of namespaces that were erased.
#include <algorithm>

#include "base/assert.h"
#include "engine/engine_core.h"

namespace kvferry::engine {

EngineCore::Progress EngineCore::BeginErase(std::uint32_t number) {
  Request& request = requests_[number];
  if (options_.has_nvme && nvme_ == nullptr) {
    EndEarly(number, StatusCode::kUnavailable);  // The block may lie there, and come back.
    return Progress::kNext;
  }
  if (nvme_ != nullptr && !nvme_->CanErase()) {
    return Progress::kStalled;
  }
  const auto [record, reason] = Look(request.call, request.call.keys[request.next]);
  if (record != kNoRecord) {
    WithdrawAll(record, MissReason::kErased);
  }
  // Also without a record: a row that was recorded in vain may be waiting for its deletion, and
  // that of an evicted block for its segment's next life.
  if (nvme_ != nullptr && (nvme_->queued_erasures() > nvme_->durable_erasures() ||
                           !nvme_->AreRowsGone(nvme_->newest_victim()))) {
    const std::uint32_t operation = requests_.BeginNext(number);
    requests_.operation(operation).stage = Operation::Stage::kErasing;
    requests_.operation(operation).erasure = nvme_->queued_erasures();
    requests_.operation(operation).victim = nvme_->newest_victim();
    AwaitDurable(operation);
  } else {
    requests_.SkipNext(request);
  }
  return Progress::kNext;
}

// No copy of the block is a hit from here on. Places are freed when nobody uses them any more.
void EngineCore::WithdrawAll(RecordIndex record, MissReason reason, bool deletes_row) {
  const BlockRecord& block = book_.index()[record];
  KVFERRY_CHECK(block.is_indexed);
  if (block.host_state == CopyState::kFilling) {
    WakeWaiters(TakeWaiters(book_.index().use(record).filler()), reason);
  }
  host_->Withdraw(
      record, reason == MissReason::kFailedCheck ? RemoveReason::kFailed : RemoveReason::kErased);
  if (nvme_ != nullptr) {
    nvme_->Withdraw(record, deletes_row);
  }
  book_.Depart(record, reason);
  book_.ReleaseIfUnused(record);
  has_moved_ = true;
}

bool EngineCore::Sweep() {
  if (!sweeping_) {
    sweeping_ = namespaces_.NextToSweep();
    sweep_position_ = 0;
    if (!sweeping_) {
      return false;
    }
    // With its number the namespace's rows are no blocks any more.
    durable_namespaces_.Forget(*sweeping_, nvme_ == nullptr ? nullptr : &nvme_->commit());
  }
  const std::uint8_t epoch = namespaces_.epoch(NamespaceHandle{*sweeping_});
  const std::uint32_t end =
      std::min(sweep_position_ + options_.swept_max, book_.index().records_max());
  for (; sweep_position_ < end; ++sweep_position_) {
    const RecordIndex record{sweep_position_};
    if (!book_.index().is_used(record)) {
      continue;
    }
    const BlockRecord& block = book_.index()[record];
    if (block.is_indexed && block.namespace_index == *sweeping_ && block.namespace_epoch != epoch) {
      WithdrawAll(record, MissReason::kErased, false);
    }
  }
  if (sweep_position_ == book_.index().records_max()) {
    namespaces_.EndSweep(NamespaceHandle{*sweeping_});
    sweeping_.reset();
  }
  return true;
}

}  // namespace kvferry::engine
