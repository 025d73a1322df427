// The arrow onboard_nvme_to_host: read, check, publish.
#include <algorithm>

#include "base/assert.h"
#include "engine/nvme_arrows.h"

namespace kvferry::engine {

std::uint32_t NvmeArrows::Onboard(RecordIndex record, TransferClass of, Instant deadline) {
  KVFERRY_CHECK(book_.index()[record].nvme_state == CopyState::kResident);
  Transfer& transfer = Take(record, book_.index().use(record).nvme_page);
  transfer.kind = tiers::IoOp::Kind::kRead;
  transfer.buffer = {host_.BytesOf(record).data(), transfer.size_bytes};
  transfer.stage = Stage::kQueued;
  transfer.transfer_class = of;
  transfer.deadline = deadline;
  if (of != TransferClass::kWriteBack) {
    book_.index().PrivatePart(record).was_hit = 1;
  }
  // From here on the pages may not be reused, even before the read has started.
  store_->AddUser(store_->table().SegmentOf(transfer.page));
  const std::uint32_t number = NumberOf(transfer);
  book_.index().use(record).set_filler(number);
  scheduler_.Push(of, number, deadline);
  return number;
}

void NvmeArrows::Raise(std::uint32_t number, TransferClass of, Instant deadline) {
  Transfer& transfer = transfers_[number];
  if (transfer.stage != Stage::kQueued ||
      (of >= transfer.transfer_class && deadline >= transfer.deadline)) {
    return;
  }
  scheduler_.Remove(transfer.transfer_class, number);
  transfer.transfer_class = std::min(of, transfer.transfer_class);
  transfer.deadline = std::min(deadline, transfer.deadline);
  scheduler_.Push(transfer.transfer_class, number, transfer.deadline);
}

void NvmeArrows::GiveUpIfQueued(std::uint32_t number) {
  Transfer& transfer = transfers_[number];
  if (transfer.stage != Stage::kQueued || transfer.transfer_class == TransferClass::kWriteBack) {
    return;  // A block that moves is read for its own sake.
  }
  scheduler_.Remove(transfer.transfer_class, number);
  store_->RemoveUser(store_->table().SegmentOf(transfer.page));
  const RecordIndex record = transfer.record;
  Free(transfer);
  host_.Abandon(record, MissReason::kEvicted);
}

bool NvmeArrows::StartRead(Transfer& transfer) {
  if (!ring_.Submit(transfer).ok()) {
    return false;  // Full, or out of order for now: it stays in front of its queue.
  }
  transfer.stage = Stage::kReading;
  transfer.started_at = now_;
  scheduler_.meter(Arrow::kOnboardNvmeToHost).Start(now_, transfer.size_bytes);
  onboard_stats_.bytes_in_flight += transfer.size_bytes;
  return true;
}

void NvmeArrows::OnReadDone(Transfer& transfer) {
  scheduler_.meter(Arrow::kOnboardNvmeToHost).End(now_, transfer.size_bytes);
  onboard_stats_.bytes_in_flight -= transfer.size_bytes;
  if (!transfer.status.ok()) {
    ++onboard_stats_.failures;
    OnUnreadable(transfer);
    EndOnboard(transfer, MissReason::kReadFailed);
    return;
  }
  report_.NoteRead(transfer.file_index, now_ - transfer.started_at);
  transfer.stage = Stage::kChecking;
  const BlockRecord& block = book_.index()[transfer.record];
  CopyPiece piece;
  piece.source = transfer.buffer.data();
  piece.size_bytes = block.size_bytes;
  piece.operation = NumberOf(transfer);
  piece.key = block.key;
  piece.checksum = block.checksum;
  desk_.Add(CopyJob::Kind::kVerify, piece);
}

// The drive did not give the bytes. Where it is the drive that fails, its blocks are still there.
void NvmeArrows::OnUnreadable(const Transfer& transfer) {
  const bool is_transient =
      tiers::ClassifyIoError(transfer.status) == tiers::IoErrorClass::kTransient;
  if (!is_transient && IsAt(transfer.record, transfer.page) &&
      book_.index()[transfer.record].is_persisted == 0) {
    Withdraw(transfer.record, true);
  }
  const bool counts = NoteIoFailure(transfer);
  SegmentMoves::Move* const move = MoveOf(transfer.record);
  if (!is_transient && move != nullptr && IsAt(transfer.record, transfer.page)) {
    OnMoveUnreadable(*move, counts);
  }
}

void NvmeArrows::OnVerified(const CopyPiece& piece) noexcept {
  Transfer& transfer = transfers_[piece.operation];
  KVFERRY_CHECK(transfer.stage == Stage::kChecking);
  if (!piece.is_intact) {
    ++failed_checks_;
    ++onboard_stats_.failures;
    OnWrongBytes(transfer);
    EndOnboard(transfer, MissReason::kFailedCheck);
    return;
  }
  std::erase(suspects_, transfer.record);
  ++onboard_stats_.blocks;
  onboard_stats_.bytes += piece.size_bytes;
  EndOnboard(transfer, MissReason::kNone);
}

// A persisted block gets a second chance: what came may not be what lies there.
void NvmeArrows::OnWrongBytes(const Transfer& transfer) {
  const RecordIndex record = transfer.record;
  if (IsAt(record, transfer.page)) {
    const bool is_first = book_.index()[record].is_persisted != 0 &&
                          suspects_.size() < kSuspectsMax &&
                          std::find(suspects_.begin(), suspects_.end(), record) == suspects_.end();
    if (is_first) {
      suspects_.push_back(record);
    } else {
      std::erase(suspects_, record);
      Withdraw(record, true);
    }
  }
  if (store_->NoteFailure(transfer.page)) {
    GiveUpSegment(store_->table().SegmentOf(transfer.page));
  }
}

void NvmeArrows::EndOnboard(Transfer& transfer, MissReason reason) {
  store_->RemoveUser(store_->table().SegmentOf(transfer.page));
  const RecordIndex record = transfer.record;
  const std::uint32_t waiter = transfer.waiter;
  Free(transfer);
  const BlockRecord& block = book_.index()[record];
  if (reason == MissReason::kNone && !block.is_indexed) {
    reason = MissReason::kErased;
  }
  if (reason == MissReason::kNone) {
    host_.Publish(record, block.checksum);
    if (block.nvme_state == CopyState::kAbsent) {
      host_.WantOffload(record);  // Its segment was given up meanwhile.
    }
  } else {
    host_.Abandon(record, reason);
  }
  sink_.OnOnboardEnd(record, waiter, reason);
}

}  // namespace kvferry::engine
