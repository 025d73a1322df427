// NvmeArrows: what survives a restart: rows, persisted blocks, and what is found again.
#include <algorithm>
#include <tuple>

#include "base/assert.h"
#include "base/bytes.h"
#include "engine/nvme_arrows.h"
#include "engine/refusals.h"

namespace kvferry::engine {

tiers::BlockRow NvmeArrows::RowOf(RecordIndex record, std::uint16_t number) const {
  const BlockRecord& block = book_.index()[record];
  tiers::BlockRow row;
  row.key = block.key;
  row.stored_bytes = block.size_bytes;
  row.raw_bytes = block.size_bytes;
  row.tenant = number;
  row.flags = block.is_persisted != 0 ? tiers::BlockRow::kProtected : std::uint8_t{0};
  row.checksum = block.checksum;
  return row;
}

bool NvmeArrows::FillRow(std::uint32_t owner, std::uint32_t page, tiers::BlockRow& row) {
  const RecordIndex record{owner};
  if (!book_.index().is_used(record)) {
    return false;
  }
  const BlockRecord& block = book_.index()[record];
  const SegmentMoves::Move* const move = MoveOf(record);
  const bool is_here = IsAt(record, page) || (move != nullptr && move->target == page);
  if (!is_here || !block.is_indexed ||
      block.namespace_epoch != namespaces_.epoch(NamespaceHandle{block.namespace_index})) {
    return false;
  }
  const auto number =
      durable_namespaces_.NumberOf(block.namespace_index, block.namespace_epoch, store_->commit());
  if (!number) {
    return false;
  }
  row = RowOf(record, *number);
  return true;
}

bool NvmeArrows::FillRowIn(std::uint32_t owner, std::uint32_t segment, tiers::BlockRow& row) {
  const RecordIndex record{owner};
  if (!book_.index().is_used(record)) {
    return false;
  }
  const std::uint32_t page = book_.index().use(record).nvme_page;
  if (store_->table().SegmentOf(page) != segment || book_.index()[record].is_durable == 0 ||
      !FillRow(owner, page, row)) {
    return false;
  }
  row.page = page;
  return true;
}

void NvmeArrows::OnEntryEnd(std::uint32_t owner,
                            std::uint32_t page,
                            bool is_rewrite,
                            tiers::CommitSink::End end,
                            std::uint8_t flags) noexcept {
  const RecordIndex record{owner};
  if (!book_.index().is_used(record)) {
    return;
  }
  if (is_rewrite) {
    book_.index().Update(record, [](BlockRecord& block) { block.is_rewriting = false; });
  }
  switch (end) {
    case tiers::CommitSink::End::kDurable:
      OnDurable(record, page, is_rewrite, flags);
      break;
    case tiers::CommitSink::End::kLost:
      OnLost(record, page, is_rewrite);
      break;
    case tiers::CommitSink::End::kUnwanted: {
      const SegmentMoves::Move* const move = MoveOf(record);
      if (move != nullptr && move->target == page) {
        Evict(record, MissReason::kEvictedByReuse);
      }
      break;
    }
  }
}

void NvmeArrows::OnDurable(RecordIndex record,
                           std::uint32_t page,
                           bool is_rewrite,
                           std::uint8_t flags) {
  SegmentMoves::Move* const move = MoveOf(record);
  if (move != nullptr && move->target == page) {
    const std::uint64_t size = SizeOf(record);
    BlockUse& use = book_.index().use(record);
    LeaveRow(use.nvme_page);
    store_->RemoveLive(use.nvme_page, size);
    store_->AddLive(page, size);
    use.nvme_page = page;
    ++nvme_stats_.blocks_moved;
    nvme_stats_.bytes_moved += size;
    EndMove(record);
  } else if (!IsAt(record, page)) {
    return;
  }
  BlockRecord& block = book_.index().PrivatePart(record);
  block.is_durable = 1;
  host_.NoteMayLeave(record);
  block.is_row_persisted = (flags & tiers::BlockRow::kProtected) != 0 ? 1 : 0;
  if (is_rewrite) {
    store_->Forget(page);  // The footer has other flags.
  }
  if (block.is_row_persisted != block.is_persisted) {
    Rewrite(record);
  }
  if (block.is_persisted != 0 && block.is_moving == 0 &&
      IsInQuarantine(store_->table().SegmentOf(page))) {
    BeginMove(record);  // It was on its way there when the segment was given up.
  }
}

void NvmeArrows::OnLost(RecordIndex record, std::uint32_t page, bool is_rewrite) {
  SegmentMoves::Move* const move = MoveOf(record);
  if (move != nullptr && move->target == page) {
    move->stage = SegmentMoves::Stage::kWaiting;
    move->target = 0;
    return;
  }
  if (!IsAt(record, page)) {
    return;
  }
  if (is_rewrite) {
    Rewrite(record);
    return;
  }
  ++nvme_stats_.blocks_lost;
  const bool is_in_host = book_.index()[record].host_state == CopyState::kResident;
  if (is_in_host) {
    EndMove(record);  // There is nothing to move any more.
    SetState(record, CopyState::kAbsent);
    host_.WantOffload(record);  // To another place.
    return;
  }
  Evict(record, MissReason::kReadFailed);
}

void NvmeArrows::ChangeTenant(RecordIndex record, std::uint32_t tenant) {
  if (book_.index()[record].nvme_state != CopyState::kAbsent) {
    tenant_bytes_[TenantOf(record)] -= SizeOf(record);
    tenant_bytes_[tenant] += SizeOf(record);
  }
}

void NvmeArrows::RecordAgain(RecordIndex record) {
  if (book_.index()[record].is_durable != 0 && !is_stopping_) {
    Rewrite(record);
  }
}

void NvmeArrows::Rewrite(RecordIndex record) {
  if (book_.index()[record].is_rewriting) {
    return;
  }
  book_.index().Update(record, [](BlockRecord& block) { block.is_rewriting = true; });
  rewrites_.push_back(record);
}

void NvmeArrows::Hurry() {
  if (!is_stopping_) {
    RewriteRows();  // What waits for the next step would miss the group that is hurried.
  }
  store_->commit().Hurry();
}

void NvmeArrows::RewriteRows() {
  while (!rewrites_.empty() && store_->commit().CanAdd()) {
    const RecordIndex record = rewrites_.back();
    rewrites_.pop_back();
    if (!book_.index().is_used(record) || !book_.index()[record].is_rewriting) {
      continue;
    }
    if (book_.index()[record].is_durable == 0) {
      book_.index().Update(record, [](BlockRecord& block) { block.is_rewriting = false; });
      continue;
    }
    store_->commit().Rewrite(static_cast<std::uint32_t>(record),
                             book_.index().use(record).nvme_page);
  }
}

bool NvmeArrows::MayPersist(std::uint64_t size_bytes) const {
  return store_->CanProtect() && persisted_bytes_ + size_bytes <= persisted_bytes_max();
}

// Of what is not in quarantine.
std::uint64_t NvmeArrows::persisted_bytes_max() const {
  const std::uint32_t count = store_->table().segment_count();
  const std::uint64_t usable = stats_.bytes_total / count * (count - store_->quarantined());
  return PercentOf(usable, options_.persisted_percent);
}

Status NvmeArrows::WhyNotPersisted(std::size_t blocks, std::uint64_t size_bytes) const {
  return store_->CanProtect()
             ? PersistedTooMuch({.blocks = static_cast<std::uint32_t>(blocks),
                                 .more_bytes = size_bytes,
                                 .persisted_bytes = persisted_bytes_,
                                 .persisted_bytes_max = persisted_bytes_max()})
             : CannotPersist(store_->table().segment_count(), tiers::kSegmentsToProtect);
}

bool NvmeArrows::MayWrite(NamespaceHandle in, std::uint64_t size_bytes) const {
  const std::uint32_t tenant = namespaces_.tenant_index(in.index);
  return size_bytes == 0 || tenant_bytes_[tenant] + size_bytes <= namespaces_.nvme_quota(tenant);
}

Status NvmeArrows::WhyNotWritten(NamespaceHandle in,
                                 std::size_t blocks,
                                 std::uint64_t size_bytes) const {
  const std::uint32_t tenant = namespaces_.tenant_index(in.index);
  return PersistedOverQuota({.blocks = static_cast<std::uint32_t>(blocks),
                             .more_bytes = size_bytes,
                             .tenant = namespaces_.tenant_number(in),
                             .tenant_bytes = tenant_bytes_[tenant],
                             .tenant_bytes_max = namespaces_.nvme_quota(tenant)});
}

void NvmeArrows::SetPersisted(RecordIndex record, bool is_persisted) {
  BlockRecord& block = book_.index().PrivatePart(record);
  if ((block.is_persisted != 0) == is_persisted) {
    return;
  }
  block.is_persisted = is_persisted ? 1 : 0;
  host_.NoteMayLeave(record);
  persisted_bytes_ += is_persisted ? SizeOf(record) : 0 - SizeOf(record);
  if (block.is_durable != 0 && block.is_row_persisted != block.is_persisted && !is_stopping_) {
    Rewrite(record);
  }
}

NvmeArrows::Persistence NvmeArrows::GoOnPersisting(RecordIndex record) {
  const BlockRecord& block = book_.index()[record];
  if (block.nvme_state == CopyState::kAbsent && block.host_state == CopyState::kFilling) {
    return Persistence::kUnderWay;
  }
  if (block.nvme_state == CopyState::kAbsent && block.host_state != CopyState::kResident) {
    return Persistence::kGone;
  }
  if (block.nvme_state == CopyState::kAbsent && IsOverQuota(record)) {
    SetPersisted(record, false);  // Or it would stay in host memory for a write that never comes.
    return Persistence::kOverQuota;
  }
  SetPersisted(record, true);
  if (block.nvme_state == CopyState::kResident) {
    // A row that is being recorded again may have been told before the block was persisted.
    if (block.is_durable != 0 && block.is_row_persisted != 0 && !block.is_rewriting) {
      return Persistence::kDone;
    }
    Hurry();
    return Persistence::kUnderWay;
  }
  if (block.nvme_state == CopyState::kAbsent && !is_stopping_ &&
      writes_in_flight_ < std::max<std::size_t>(1, transfers_.size() / 2)) {
    StartOffload(record, false);
  }
  return Persistence::kUnderWay;
}

void NvmeArrows::CancelPersisting(RecordIndex record) {
  if (book_.index()[record].is_row_persisted == 0) {
    SetPersisted(record, false);
  }
}

// Whether a block in host memory is the one that the row tells of.
bool NvmeArrows::IsSameBlock(RecordIndex record,
                             const tiers::BlockRow& row,
                             DurableNamespaces::Meaning meaning) const {
  const BlockRecord& block = book_.index()[record];
  return block.nvme_state == CopyState::kAbsent && block.host_state == CopyState::kResident &&
         block.checksum == row.checksum && block.size_bytes == row.raw_bytes &&
         block.namespace_index == meaning.index && block.namespace_epoch == meaning.epoch;
}

std::uint32_t NvmeArrows::OnFound(const tiers::BlockRow& row,
                                  std::uint32_t page,
                                  std::uint64_t generation) {
  const auto meaning = durable_namespaces_.Find(row.tenant);
  if (!meaning || row.codec != 0 || row.stored_bytes != row.raw_bytes ||
      meaning->epoch != namespaces_.epoch(NamespaceHandle{meaning->index}) ||
      row.raw_bytes != namespaces_.block_bytes(NamespaceHandle{meaning->index})) {
    return tiers::kNoOwner;
  }
  RecordIndex record = book_.index().Find(row.key);
  if (record != kNoRecord && book_.index()[record].nvme_state == CopyState::kResident) {
    const std::uint32_t known_page = book_.index().use(record).nvme_page;
    const std::uint32_t known_segment = store_->table().SegmentOf(known_page);
    // A place in quarantine is left for another one, and may go bad altogether.
    if (std::tuple(!IsInQuarantine(known_segment), store_->table()[known_segment].generation,
                   known_page) >
        std::tuple(!IsInQuarantine(store_->table().SegmentOf(page)), generation, page)) {
      return tiers::kNoOwner;
    }
    // What was found first is the older one.
    sink_.OnSuperseded(record);
    record = book_.index().Find(row.key);
  }
  const bool is_persisted = (row.flags & tiers::BlockRow::kProtected) != 0;
  if (record != kNoRecord && !IsSameBlock(record, row, *meaning)) {
    if (!is_persisted) {
      return tiers::kNoOwner;  // Another block was put, or is being put, under the key since.
    }
    sink_.OnSuperseded(record);
    record = kNoRecord;
  }
  if (record == kNoRecord) {
    BlockRecord fresh;
    fresh.key = row.key;
    fresh.checksum = row.checksum;
    fresh.size_bytes = row.raw_bytes & kBlockSizeMask;
    fresh.namespace_index = meaning->index;
    fresh.namespace_epoch = meaning->epoch;
    record = book_.AddFound(fresh);
    if (record == kNoRecord) {
      return tiers::kNoOwner;
    }
  }
  book_.index().use(record).nvme_page = page;
  SetState(record, CopyState::kResident);
  BlockRecord& own = book_.index().PrivatePart(record);
  own.is_durable = 1;
  own.is_row_persisted = is_persisted ? 1 : 0;
  if (is_persisted) {
    SetPersisted(record, true);
  } else if (own.is_persisted != 0) {
    Rewrite(record);
  }
  ++nvme_stats_.blocks_found;
  return static_cast<std::uint32_t>(record);
}

}  // namespace kvferry::engine
