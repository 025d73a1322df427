// The arrow offload_host_to_nvme: take pages, write, publish.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "engine/nvme_arrows.h"

namespace kvferry::engine {
namespace {

// Writes that are begun in one step, so that a step stays short.
constexpr std::uint32_t kStartedMax = 32;
// And those that are tried in vain: where there is no room for one there may be for a smaller one.
constexpr std::uint32_t kFailedMax = 8;
// After a write that failed or was not taken, and the longer one where the drive had no room or no
// leave for it.
constexpr Duration kPause = std::chrono::milliseconds(10);
constexpr Duration kLongPause = std::chrono::seconds(1);
// Until others are tried, where none of those that were tried found room.
constexpr Duration kLookPause = std::chrono::milliseconds(100);

}  // namespace

bool NvmeArrows::StartOffloads() {
  const std::uint32_t tries_max = std::min(kStartedMax, host_.offloads_wanted());
  std::uint32_t failed = 0;
  for (std::uint32_t tries = 0; tries < tries_max && failed < kFailedMax; ++tries) {
    // Half of the transfers are left to reads, which somebody waits for.
    if (free_.empty() || writes_in_flight_ >= transfers_.size() / 2 || now_ < writes_resume_at_ ||
        !scheduler_.meter(Arrow::kOffloadHostToNvme).HasRoom(1)) {
      return false;
    }
    const RecordIndex record = host_.TakeOffload();
    if (record == kNoRecord) {
      return host_.offloads_wanted() > 0;  // It has not looked everywhere yet.
    }
    if (!StartOffload(record, false)) {
      host_.WantOffload(record);  // Behind the others, of which one may find room.
      ++failed;
    }
  }
  if (failed > 0) {
    offloads_look_at_ = now_ + kLookPause;  // There may be one behind those that were tried.
  }
  return false;
}

bool NvmeArrows::IsOverQuota(RecordIndex record) const {
  const std::uint16_t index = book_.index()[record].namespace_index;
  return tenant_bytes_[TenantOf(record)] + SizeOf(record) >
         namespaces_.nvme_quota(namespaces_.tenant_index(index));
}

// Blocks that are to stay have a stream of their own; but only once they move, so that a block that
// is written costs one place in the open segment whatever becomes of it.
tiers::SegmentStream NvmeArrows::StreamOf(RecordIndex record, bool is_move) const {
  return is_move && book_.index()[record].is_persisted != 0 ? tiers::SegmentStream::kProtected
                                                            : tiers::SegmentStream::kNormal;
}

// `is_move` is for those that StartMove has found room for.
bool NvmeArrows::StartOffload(RecordIndex record, bool is_move) {
  const BlockRecord& block = book_.index()[record];
  const std::uint64_t size = SizeOf(record);
  const std::uint64_t pages = size / tiers::kIoAlignment;
  const CopyState expected = is_move ? CopyState::kResident : CopyState::kAbsent;
  if (block.nvme_state != expected || size > block_bytes_max()) {
    return true;  // There is nothing to do, or no way to do it.
  }
  if (!is_move && IsOverQuota(record)) {
    ++offload_stats_.failures;
    return true;
  }
  if (!is_move && block.is_persisted == 0 && !budget_.Allows(now_, size)) {
    ++nvme_stats_.offloads_over_budget;
    return true;
  }
  if (is_stopping_ || free_.empty() || now_ < writes_resume_at_ ||
      !scheduler_.meter(Arrow::kOffloadHostToNvme).HasRoom(size)) {
    return false;
  }
  const SegmentMoves::Move* const move = is_move ? MoveOf(record) : nullptr;
  const auto page =
      store_->Append(StreamOf(record, is_move), static_cast<std::uint32_t>(pages),
                     static_cast<std::uint32_t>(record), move != nullptr && IsPressing(*move));
  return page && SubmitWrite(record, *page, is_move);
}

bool NvmeArrows::SubmitWrite(RecordIndex record, std::uint32_t page, bool is_move) {
  const std::uint64_t size = SizeOf(record);
  Transfer& transfer = Take(record, page);
  transfer.kind = tiers::IoOp::Kind::kWrite;
  transfer.is_move = is_move;
  const std::span<std::byte> bytes = host_.BytesOf(record);
  // What lies behind the block in its slot is another block's past.
  std::memset(bytes.data() + bytes.size(), 0, size - bytes.size());
  transfer.buffer = {bytes.data(), size};
  transfer.transfer_class = TransferClass::kWriteBack;
  if (!ring_.Submit(transfer).ok()) {
    Free(transfer);
    store_->NotWritten(page);           // The pages stay dead until the segment is reused,
    writes_resume_at_ = now_ + kPause;  // which another attempt at once would do to more of them.
    return false;
  }
  transfer.stage = Stage::kWriting;
  BlockUse& use = book_.index().use(record);
  ++use.readers;
  ++writes_in_flight_;
  if (is_move) {
    SegmentMoves::Move* const move = moves_.Find(record);
    KVFERRY_CHECK(move != nullptr);
    move->stage = SegmentMoves::Stage::kWriting;
    move->target = page;
  } else {
    use.nvme_page = page;
    SetState(record, CopyState::kFilling);
  }
  budget_.Spend(size);
  report_.NoteWritten(now_, size);
  scheduler_.meter(Arrow::kOffloadHostToNvme).Start(now_, size);
  offload_stats_.bytes_in_flight += size;
  return true;
}

void NvmeArrows::OnWriteDone(Transfer& transfer) {
  scheduler_.meter(Arrow::kOffloadHostToNvme).End(now_, transfer.size_bytes);
  offload_stats_.bytes_in_flight -= transfer.size_bytes;
  --writes_in_flight_;
  const bool is_whole = transfer.status.ok();
  if (!is_whole) {
    const tiers::IoErrorClass why = tiers::ClassifyIoError(transfer.status);
    const bool is_long =
        why == tiers::IoErrorClass::kNoSpace || why == tiers::IoErrorClass::kReadOnly;
    writes_resume_at_ = now_ + (is_long ? kLongPause : kPause);
    ++offload_stats_.failures;
    NoteIoFailure(transfer);
  }
  const RecordIndex record = transfer.record;
  const std::uint32_t page = transfer.page;
  const std::uint32_t size = transfer.size_bytes;
  const bool is_move = transfer.is_move;
  Free(transfer);
  const auto owner = static_cast<std::uint32_t>(record);
  SegmentMoves::Move* const move = is_move ? MoveOf(record) : nullptr;
  const bool is_wanted =
      is_move ? move != nullptr && move->target == page : book_.index()[record].is_indexed;
  if (is_whole && is_wanted) {
    if (is_move) {
      move->stage = SegmentMoves::Stage::kCommitting;
    } else {
      SetState(record, CopyState::kResident);
    }
    store_->Written(owner, page, size);
    ++offload_stats_.blocks;
    offload_stats_.bytes += size;
  } else {
    store_->NotWritten(page);
    if (!is_move) {
      SetState(record, CopyState::kAbsent);
    } else if (move != nullptr && move->target == page) {
      move->stage = SegmentMoves::Stage::kWaiting;
      move->target = 0;
    }
  }
  --book_.index().use(record).readers;
  host_.Settle(record);
  book_.ReleaseIfUnused(record);
}

}  // namespace kvferry::engine
