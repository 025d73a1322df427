// What both arrows share: transfers, their order, the bytes of the tier.
#include "engine/nvme_arrows.h"

#include "base/assert.h"
#include "base/bytes.h"

namespace kvferry::engine {

NvmeArrows::NvmeArrows(const Options& options, const Parts& parts)
    : book_(parts.book),
      host_(parts.host),
      namespaces_(parts.namespaces),
      desk_(parts.desk),
      sink_(parts.sink),
      ring_(parts.ring),
      log_(options.log),
      scheduler_(options.transfers_max),
      transfers_(options.transfers_max),
      tenant_bytes_(namespaces_.tenants_max()) {
  free_.reserve(transfers_.size());
  for (std::uint32_t number = options.transfers_max; number > 0; --number) {
    free_.push_back(number - 1);
  }
  stats_.bytes_total =
      std::uint64_t{options.log.segment_count} * log_.payload_pages_max() * tiers::kIoAlignment;
  stats_.bytes_free = stats_.bytes_total;
}

std::uint32_t NvmeArrows::TenantOf(RecordIndex record) const {
  return namespaces_.tenant_index(book_.index()[record].namespace_index);
}

NvmeArrows::Transfer& NvmeArrows::Take(RecordIndex record) {
  KVFERRY_CHECK(!free_.empty());
  Transfer& transfer = transfers_[free_.back()];
  free_.pop_back();
  transfer.record = record;
  transfer.waiter = kNone;
  transfer.sink = this;
  transfer.segment = log_.SegmentOf(book_.index().use(record).nvme_page);
  transfer.size_bytes =
      static_cast<std::uint32_t>(AlignUp(book_.index()[record].size_bytes, tiers::kIoAlignment));
  return transfer;
}

void NvmeArrows::Free(Transfer& transfer) {
  transfer.stage = Stage::kFree;
  transfer.record = kNoRecord;
  free_.push_back(NumberOf(transfer));
}

// Keeps the bytes of the tier by state; dead pages count as free, since reuse takes them along.
void NvmeArrows::SetState(RecordIndex record, CopyState state) {
  const BlockRecord& block = book_.index()[record];
  const std::uint64_t size = AlignUp(block.size_bytes, tiers::kIoAlignment);
  const auto count = [&](CopyState of, bool is_added) {
    std::uint64_t& bytes = of == CopyState::kAbsent     ? stats_.bytes_free
                           : of == CopyState::kFilling  ? stats_.bytes_filling
                           : of == CopyState::kResident ? stats_.bytes_resident
                                                        : stats_.bytes_draining;
    bytes += is_added ? size : 0 - size;
  };
  count(block.nvme_state, false);
  count(state, true);
  stats_.blocks_resident -= block.nvme_state == CopyState::kResident ? 1 : 0;
  stats_.blocks_resident += state == CopyState::kResident ? 1 : 0;
  std::uint64_t& tenant = tenant_bytes_[TenantOf(record)];
  tenant -= block.nvme_state != CopyState::kAbsent ? size : 0;
  tenant += state != CopyState::kAbsent ? size : 0;
  book_.index().Update(record, [state](BlockRecord& changed) { changed.nvme_state = state; });
}

void NvmeArrows::Withdraw(RecordIndex record) {
  if (book_.index()[record].nvme_state == CopyState::kResident) {
    SetState(record, CopyState::kAbsent);
  }
  // One that is being written finds out when the write ends.
}

void NvmeArrows::StartTransfers(Instant now) {
  now_ = now;
  for (std::size_t of = 0; of < kTransferClassCount; ++of) {
    const auto transfer_class = static_cast<TransferClass>(of);
    while (!scheduler_.is_empty(transfer_class)) {
      Transfer& next = transfers_[scheduler_.Front(transfer_class)];
      if (!scheduler_.meter(Arrow::kOnboardNvmeToHost).HasRoom(next.size_bytes) ||
          !StartRead(next)) {
        return;  // What is less urgent does not pass by; writes wait for all reads.
      }
      scheduler_.Pop(transfer_class);
    }
  }
  StartOffloads(now);
}

void NvmeArrows::OnIoDone(tiers::IoOp& op) noexcept {
  auto& transfer = static_cast<Transfer&>(op);
  if (transfer.stage == Stage::kReading) {
    OnReadDone(transfer);
  } else {
    KVFERRY_CHECK(transfer.stage == Stage::kWriting);
    OnWriteDone(transfer);
  }
}

void NvmeArrows::CheckInvariants() const {
  TierStats seen;
  book_.index().ForEach([&](RecordIndex record) {
    const BlockRecord& block = book_.index()[record];
    const std::uint64_t size = AlignUp(block.size_bytes, tiers::kIoAlignment);
    seen.bytes_filling += block.nvme_state == CopyState::kFilling ? size : 0;
    seen.bytes_resident += block.nvme_state == CopyState::kResident ? size : 0;
    seen.blocks_resident += block.nvme_state == CopyState::kResident ? 1 : 0;
  });
  KVFERRY_CHECK(seen.bytes_filling == stats_.bytes_filling);
  KVFERRY_CHECK(seen.bytes_resident == stats_.bytes_resident);
  KVFERRY_CHECK(seen.blocks_resident == stats_.blocks_resident);
  KVFERRY_CHECK(stats_.bytes_free + seen.bytes_filling + seen.bytes_resident == stats_.bytes_total);
  std::vector<std::uint32_t> users(log_.segment_count());
  for (const Transfer& transfer : transfers_) {
    if (transfer.stage != Stage::kFree) {
      ++users[transfer.segment];
    }
  }
  for (std::uint32_t segment = 0; segment < log_.segment_count(); ++segment) {
    KVFERRY_CHECK(users[segment] == log_.users(segment));
  }
}

}  // namespace kvferry::engine
