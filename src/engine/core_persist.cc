// EngineCore: Persist and Unpersist, and the wait for what has to be durable.
#include <algorithm>

#include "base/assert.h"
#include "engine/engine_core.h"
#include "engine/refusals.h"

namespace kvferry::engine {

// Whether the tier's share for persisted blocks has room for those of the request that are not yet,
// and the tenant's quota for those that are not in the tier; `request` is told if not.
bool EngineCore::MayPersist(Request& request) {
  std::uint64_t bytes = 0;
  std::uint64_t bytes_to_write = 0;
  for (const BlockKey& key : request.call.keys) {
    const RecordIndex record = book_.index().Find(key);
    if (record == kNoRecord) {
      continue;
    }
    const BlockRecord& block = book_.index()[record];
    const std::uint64_t size = AlignUp(block.size_bytes, tiers::kIoAlignment);
    bytes += block.is_persisted == 0 ? size : 0;
    bytes_to_write += block.nvme_state == CopyState::kAbsent ? size : 0;
  }
  if (request.call.block_bytes > nvme_->block_bytes_max()) {
    request.refusal = TooLargeToPersist(request.call.block_bytes, nvme_->block_bytes_max());
    requests_.Limit(request, 0, MissReason::kNotAdmitted);
    return false;
  }
  if (!nvme_->MayPersist(bytes)) {
    request.refusal = nvme_->WhyNotPersisted(request.call.keys.size(), bytes);
  } else if (!nvme_->MayWrite(request.call.in, bytes_to_write)) {
    request.refusal =
        nvme_->WhyNotWritten(request.call.in, request.call.keys.size(), bytes_to_write);
  } else {
    return true;
  }
  requests_.Limit(request, 0, MissReason::kOverQuota);
  return false;
}

EngineCore::Progress EngineCore::BeginPersist(std::uint32_t number) {
  Request& request = requests_[number];
  if (nvme_ == nullptr || is_nvme_lost_) {
    EndEarly(number, StatusCode::kUnavailable);
    return Progress::kNext;
  }
  if (!nvme_->CanErase()) {
    return Progress::kStalled;  // What is not found yet may be on the drive.
  }
  if (!request.is_announced) {
    request.is_announced = true;
    if (!MayPersist(request)) {
      EndEarly(number, StatusCode::kResourceExhausted);
      return Progress::kNext;
    }
  }
  const auto [record, reason] = Look(request.call, request.call.keys[request.next]);
  if (record == kNoRecord) {
    Refuse(request, reason);
    return Progress::kNext;
  }
  const std::uint32_t operation = requests_.BeginNext(number);
  requests_.operation(operation).stage = Operation::Stage::kPersisting;
  requests_.operation(operation).record = record;
  // What was erased before must not be there again where the block is.
  requests_.operation(operation).erasure = nvme_->queued_erasures();
  AwaitDurable(operation);
  return Progress::kNext;
}

EngineCore::Progress EngineCore::BeginUnpersist(std::uint32_t number) {
  Request& request = requests_[number];
  if (nvme_ == nullptr) {
    EndEarly(number, StatusCode::kUnavailable);
    return Progress::kNext;
  }
  if (!nvme_->CanErase()) {
    return Progress::kStalled;
  }
  const auto [record, reason] = Look(request.call, request.call.keys[request.next]);
  if (record != kNoRecord) {
    nvme_->SetPersisted(record, false);
  }
  requests_.SkipNext(request);
  return Progress::kNext;
}

void EngineCore::AwaitDurable(std::uint32_t number) {
  KVFERRY_CHECK(awaiting_durable_.size() < requests_.operations_max());
  awaiting_durable_.push_back(number);
  has_moved_ = true;
}

void EngineCore::GoOnDurable() {
  if (nvme_ == nullptr || awaiting_durable_.empty()) {
    return;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < awaiting_durable_.size(); ++i) {
    const std::uint32_t number = awaiting_durable_[i];
    if (requests_.operation(number).stage == Operation::Stage::kPersisting) {
      GoOnPersisting(number);
    } else if (requests_.operation(number).erasure <= nvme_->durable_erasures() &&
               nvme_->AreRowsGone(requests_.operation(number).victim)) {
      EndOperation(number, MissReason::kNone);
    }
    if (requests_.operation(number).stage != Operation::Stage::kFree) {
      awaiting_durable_[kept++] = number;
    }
  }
  awaiting_durable_.resize(kept);
  nvme_->Hurry();
}

void EngineCore::GoOnPersisting(std::uint32_t number) {
  const Operation& operation = requests_.operation(number);
  const Call& call = requests_[operation.request].call;
  const auto [record, reason] = Look(call, call.keys[operation.index]);
  if (record == kNoRecord) {
    EndOperation(number, reason);
    return;
  }
  requests_.operation(number).record = record;
  switch (nvme_->GoOnPersisting(record)) {
    case NvmeArrows::Persistence::kDone:
      if (operation.erasure <= nvme_->durable_erasures()) {
        EndOperation(number, MissReason::kNone);
      }
      break;
    case NvmeArrows::Persistence::kGone:
      EndOperation(number, MissReason::kEvicted);
      break;
    case NvmeArrows::Persistence::kOverQuota: {
      // Others of the tenant have come meanwhile. The request's other operations end with its turn:
      // here their list is being gone through.
      Request& request = requests_[operation.request];
      if (!request.is_over_quota && request.ending == StatusCode::kOk) {
        request.is_over_quota = true;
        request.refusal = nvme_->WhyNotWritten(call.in, call.keys.size(), call.block_bytes);
      }
      EndOperation(number, MissReason::kOverQuota);
      break;
    }
    case NvmeArrows::Persistence::kUnderWay:
      break;
  }
}

// Of a request that ends early: nobody waits for the operation any more, which ends.
void EngineCore::CancelDurable(std::uint32_t number) {
  const Operation& operation = requests_.operation(number);
  const bool is_persisting = operation.stage == Operation::Stage::kPersisting;
  if (!is_persisting && operation.stage != Operation::Stage::kErasing) {
    return;
  }
  if (is_persisting && nvme_ != nullptr) {
    const Call& call = requests_[operation.request].call;
    const RecordIndex record = book_.index().Find(call.keys[operation.index]);
    if (record != kNoRecord) {
      nvme_->CancelPersisting(record);
    }
  }
  std::erase(awaiting_durable_, number);
  EndOperation(number, MissReason::kTooLate);
}

void EngineCore::EndPersists(const Status& why) {
  for (std::uint32_t number = 0; number < requests_.requests_max(); ++number) {
    Request& request = requests_[number];
    if (request.is_active && request.call.kind == Call::Kind::kPersist &&
        request.ending == StatusCode::kOk) {
      request.refusal = why;
      requests_.Limit(request, 0, MissReason::kTierOff);
      EndEarly(number, why.code());
    }
  }
}

// The tier goes off, and what was to be deleted may be found again; another one counts anew.
void EngineCore::ForgetErasures() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < awaiting_durable_.size(); ++i) {
    const std::uint32_t number = awaiting_durable_[i];
    if (requests_.operation(number).stage == Operation::Stage::kErasing) {
      EndOperation(number, MissReason::kTierOff);
    } else {
      requests_.operation(number).erasure = 0;
      awaiting_durable_[kept++] = number;
    }
  }
  awaiting_durable_.resize(kept);
}

}  // namespace kvferry::engine
