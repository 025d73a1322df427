// The arrow offload_host_to_nvme: take pages, write, publish.
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "engine/nvme_arrows.h"

namespace kvferry::engine {
namespace {

// Writes that are begun in one step, so that a step stays short.
constexpr std::uint32_t kStartedMax = 32;

}  // namespace

void NvmeArrows::StartOffloads(Instant now) {
  now_ = now;
  for (std::uint32_t started = 0; started < kStartedMax; ++started) {
    // Half of the transfers are left to reads, which somebody waits for.
    if (free_.empty() || writes_in_flight_ >= transfers_.size() / 2 ||
        !scheduler_.meter(Arrow::kOffloadHostToNvme).HasRoom(1)) {
      return;
    }
    const RecordIndex record = host_.TakeOffload();
    if (record == kNoRecord) {
      return;
    }
    if (!StartOffload(record)) {
      host_.WantOffload(record);
      return;
    }
  }
}

bool NvmeArrows::StartOffload(RecordIndex record) {
  const BlockRecord& block = book_.index()[record];
  const std::uint64_t size = AlignUp(block.size_bytes, tiers::kIoAlignment);
  const std::uint64_t pages = size / tiers::kIoAlignment;
  if (block.nvme_state != CopyState::kAbsent || pages > log_.payload_pages_max()) {
    return true;  // There is nothing to do, or no way to do it.
  }
  if (tenant_bytes_[TenantOf(record)] + size >
      namespaces_.nvme_quota(namespaces_.tenant_index(block.namespace_index))) {
    ++offload_stats_.failures;
    return true;
  }
  if (!scheduler_.meter(Arrow::kOffloadHostToNvme).HasRoom(size)) {
    return false;
  }
  const auto number = static_cast<std::uint32_t>(record);
  auto page = log_.Append(static_cast<std::uint32_t>(pages), number);
  if (!page) {
    if (!OpenNextSegment()) {
      return false;
    }
    page = log_.Append(static_cast<std::uint32_t>(pages), number);
    KVFERRY_CHECK(page.has_value());
  }
  BlockUse& use = book_.index().use(record);
  use.nvme_page = *page;
  Transfer& transfer = Take(record);
  transfer.kind = tiers::IoOp::Kind::kWrite;
  transfer.file_index = 0;
  transfer.offset_bytes = std::uint64_t{*page} * tiers::kIoAlignment;
  const std::span<std::byte> bytes = host_.BytesOf(record);
  // What lies behind the block in its slot is another block's past.
  std::memset(bytes.data() + bytes.size(), 0, size - bytes.size());
  transfer.buffer = {bytes.data(), size};
  transfer.transfer_class = TransferClass::kWriteBack;
  if (!ring_.Submit(transfer).ok()) {
    Free(transfer);  // The pages stay dead until the segment is reused.
    return false;
  }
  transfer.stage = Stage::kWriting;
  log_.AddUser(transfer.segment);
  ++use.readers;
  ++writes_in_flight_;
  SetState(record, CopyState::kFilling);
  scheduler_.meter(Arrow::kOffloadHostToNvme).Start(now_, size);
  offload_stats_.bytes_in_flight += size;
  return true;
}

bool NvmeArrows::OpenNextSegment() {
  const std::uint32_t next = log_.next_segment();
  for (const std::uint32_t owner : log_.OwnersOf(next)) {
    const RecordIndex record{owner};
    if (!book_.index().is_used(record) ||
        book_.index()[record].nvme_state != CopyState::kResident ||
        log_.SegmentOf(book_.index().use(record).nvme_page) != next) {
      continue;  // It has gone, or lies elsewhere by now.
    }
    Withdraw(record);
    ++stats_.evictions;
    const BlockRecord& block = book_.index()[record];
    if (block.host_state == CopyState::kAbsent && block.is_indexed) {
      book_.Depart(record, MissReason::kEvictedByReuse);
      book_.ReleaseIfUnused(record);
    }
  }
  if (log_.users(next) > 0) {
    return false;
  }
  log_.OpenNext();
  return true;
}

void NvmeArrows::OnWriteDone(Transfer& transfer) {
  scheduler_.meter(Arrow::kOffloadHostToNvme).End(now_, transfer.size_bytes);
  offload_stats_.bytes_in_flight -= transfer.size_bytes;
  --writes_in_flight_;
  log_.RemoveUser(transfer.segment);
  const RecordIndex record = transfer.record;
  const bool is_whole = transfer.status.ok();
  const std::uint32_t size = transfer.size_bytes;
  Free(transfer);
  const BlockRecord& block = book_.index()[record];
  if (is_whole && block.is_indexed) {
    SetState(record, CopyState::kResident);
    ++offload_stats_.blocks;
    offload_stats_.bytes += size;
  } else {
    SetState(record, CopyState::kAbsent);
    offload_stats_.failures += is_whole ? 0 : 1;
  }
  --book_.index().use(record).readers;
  host_.Settle(record);
  book_.ReleaseIfUnused(record);
}

}  // namespace kvferry::engine
