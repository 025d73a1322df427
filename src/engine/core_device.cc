// EngineCore: blocks from and to a server's tensors on a GPU.
#include "base/assert.h"
#include "engine/engine_core.h"

namespace kvferry::engine {

void EngineCore::AddDeviceCopy(std::uint32_t number, Arrow arrow, TransferClass transfer_class) {
  Operation& operation = requests_.operation(number);
  const Call& call = requests_[operation.request].call;
  if (arrow == Arrow::kOnboardHostToHbm) {
    operation.stage = Operation::Stage::kReading;
  }
  DeviceCopy copy;
  copy.arrow = arrow;
  copy.transfer_class = transfer_class;
  copy.deadline = call.deadline;
  copy.request = operation.request;
  copy.operation = number;
  copy.tensors = call.tensors;
  copy.event = call.event;
  copy.block = &call.blocks[operation.index];
  copy.host = host_->BytesOf(operation.record).data();
  device_->Add(copy);
}

void EngineCore::OnDeviceCopied(std::uint32_t number, DeviceEnd end) noexcept {
  const Operation& operation = requests_.operation(number);
  Request& request = requests_[operation.request];
  const bool is_in_doubt = end == DeviceEnd::kLostInDoubt;
  is_memory_in_doubt_ = is_memory_in_doubt_ || is_in_doubt;
  if ((is_in_doubt || end == DeviceEnd::kLost) && request.ending == StatusCode::kOk) {
    request.refusal = Status::Error(StatusCode::kUnavailable,
                                    "the GPU is lost; the log says why. The engine goes on for "
                                    "host memory; start the process anew to use the GPU again");
    EndEarly(operation.request, StatusCode::kUnavailable);
  }
  MissReason reason = MissReason::kReadFailed;
  if (end == DeviceEnd::kDone) {
    reason = MissReason::kNone;
  } else if (end == DeviceEnd::kWithdrawn) {
    reason = MissReason::kTooLate;
  }
  if (operation.stage == Operation::Stage::kReading) {
    EndRead(number, reason);
    return;
  }
  KVFERRY_CHECK(operation.stage == Operation::Stage::kFilling);
  if (reason == MissReason::kNone) {
    QueueSum(number);  // The bytes are there; what they are is not known yet.
  } else {
    FailPut(number, reason, is_in_doubt);
  }
}

void EngineCore::QueueSum(std::uint32_t number) {
  requests_.Append(unsummed_, number);
  StartSums();
}

void EngineCore::StartSums() {
  while (unsummed_.first != kNone && desk_.HasRoom(CopyJob::Kind::kSum)) {
    const std::uint32_t number = requests_.TakeFirst(unsummed_);
    const Operation& operation = requests_.operation(number);
    CopyPiece piece;
    piece.source = host_->BytesOf(operation.record).data();
    piece.size_bytes = book_.index()[operation.record].size_bytes;
    piece.operation = number;
    piece.key = book_.index()[operation.record].key;
    desk_.Add(CopyJob::Kind::kSum, piece);
  }
}

void EngineCore::OnSummed(const CopyPiece& piece) {
  const Operation& operation = requests_.operation(piece.operation);
  if (operation.stage == Operation::Stage::kFilling) {
    OnPutCopied(piece);
    return;
  }
  KVFERRY_CHECK(operation.stage == Operation::Stage::kReady);
  if (piece.checksum != book_.index()[operation.record].checksum) {
    EndRead(piece.operation, MissReason::kFailedCheck);
  } else if (requests_[operation.request].ending != StatusCode::kOk) {
    EndRead(piece.operation, MissReason::kTooLate);
  } else {
    AddDeviceCopy(piece.operation, Arrow::kOnboardHostToHbm, TransferClass::kDemand);
  }
}

}  // namespace kvferry::engine
