// What both arrows share: transfers, their order, the bytes of the tier.
#include "engine/nvme_arrows.h"

#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace kvferry::engine {

Result<std::unique_ptr<NvmeArrows>> NvmeArrows::Create(const Options& options, const Parts& parts) {
  auto arrows = std::make_unique<NvmeArrows>(Token(), options, parts);
  tiers::StoreSink& store_sink = *arrows;
  KVFERRY_ASSIGN_OR_RETURN(
      arrows->store_,
      tiers::SegmentStore::Create(options.store, {parts.ring, parts.manifest, store_sink}));
  KVFERRY_RETURN_IF_ERROR(parts.durable_namespaces.Load(parts.manifest, arrows->store_->commit()));
  KVFERRY_RETURN_IF_ERROR(arrows->report_.Load(parts.manifest));
  const tiers::SegmentTable& table = arrows->store_->table();
  arrows->stats_.bytes_total =
      std::uint64_t{table.segment_count()} * table.payload_pages_max() * tiers::kIoAlignment;
  arrows->stats_.bytes_free = arrows->stats_.bytes_total;
  return arrows;
}

NvmeArrows::NvmeArrows(Token /*token*/, const Options& options, const Parts& parts)
    : book_(parts.book),
      host_(parts.host),
      namespaces_(parts.namespaces),
      durable_namespaces_(parts.durable_namespaces),
      desk_(parts.desk),
      sink_(parts.sink),
      ring_(parts.ring),
      options_(options),
      scheduler_(options.transfers_max),
      health_(options.store.drive_count),
      budget_(options.write_bytes_per_day),
      report_({.drive_count = options.store.drive_count,
               .write_bytes_per_day = options.write_bytes_per_day,
               .unix_ms_minus_now = options.store.unix_ms_minus_now}),
      transfers_(options.transfers_max),
      tenant_bytes_(namespaces_.tenants_max()) {
  free_.reserve(transfers_.size());
  for (std::uint32_t number = options.transfers_max; number > 0; --number) {
    free_.push_back(number - 1);
  }
}

std::uint32_t NvmeArrows::TenantOf(RecordIndex record) const {
  return namespaces_.tenant_index(book_.index()[record].namespace_index);
}

std::uint64_t NvmeArrows::SizeOf(RecordIndex record) const {
  return AlignUp(book_.index()[record].size_bytes, tiers::kIoAlignment);
}

bool NvmeArrows::IsAt(RecordIndex record, std::uint32_t page) const {
  return book_.index().is_used(record) &&
         book_.index()[record].nvme_state == CopyState::kResident &&
         book_.index().use(record).nvme_page == page;
}

NvmeArrows::Transfer& NvmeArrows::Take(RecordIndex record, std::uint32_t page) {
  KVFERRY_CHECK(!free_.empty());
  Transfer& transfer = transfers_[free_.back()];
  free_.pop_back();
  transfer.record = record;
  transfer.waiter = kNone;
  transfer.is_move = false;
  transfer.sink = this;
  transfer.page = page;
  transfer.file_index = store_->DriveOf(page);
  transfer.offset_bytes = store_->OffsetOf(page);
  transfer.size_bytes = static_cast<std::uint32_t>(SizeOf(record));
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
  const std::uint64_t size = SizeOf(record);
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
  const std::uint32_t page = book_.index().use(record).nvme_page;
  if (block.nvme_state != CopyState::kAbsent) {
    tenant -= size;
    store_->RemoveLive(page, size);
  }
  if (state != CopyState::kAbsent) {
    tenant += size;
    store_->AddLive(page, size);
  }
  BlockRecord& own = book_.index().PrivatePart(record);
  if (state == CopyState::kAbsent) {
    own.is_durable = 0;
    own.is_row_persisted = 0;
    own.was_hit = 0;
  }
  book_.index().Update(record, [state](BlockRecord& changed) { changed.nvme_state = state; });
}

void NvmeArrows::Withdraw(RecordIndex record, bool deletes_row) {
  SetPersisted(record, false);
  if (book_.index()[record].nvme_state != CopyState::kResident) {
    return;  // One that is being written finds out when the write ends.
  }
  const SegmentMoves::Move* const move = MoveOf(record);
  // The row of the new place may be on its way into the manifest.
  const std::uint32_t target = move == nullptr ? 0 : move->target;
  EndMove(record);
  const std::uint32_t page = book_.index().use(record).nvme_page;
  SetState(record, CopyState::kAbsent);
  for (const std::uint32_t row : {page, target}) {
    if (row == 0) {
      continue;
    }
    if (deletes_row) {
      store_->Delete(row);
    } else {
      store_->Forget(row);
    }
  }
}

// The place is needed, or lost; the block stays where it is elsewhere.
void NvmeArrows::Evict(RecordIndex record, MissReason reason) {
  SetPersisted(record, false);
  EndMove(record);
  SetState(record, CopyState::kAbsent);
  const BlockRecord& block = book_.index()[record];
  if (block.host_state == CopyState::kAbsent && block.is_indexed) {
    book_.Depart(record, reason);
    book_.ReleaseIfUnused(record);
  } else if (block.host_state == CopyState::kFilling) {
    book_.NoteInNoTier();
  }
}

bool NvmeArrows::StepStore() {
  if (is_stopping_) {
    return false;
  }
  RewriteRows();
  const bool has_found = store_->Step(now_);
  report_.Tell(now_, false, store_->commit());
  return has_found;
}

bool NvmeArrows::StartTransfers() {
  if (is_stopping_) {
    return false;
  }
  for (std::size_t of = 0; of < kTransferClassCount; ++of) {
    const auto transfer_class = static_cast<TransferClass>(of);
    while (!scheduler_.is_empty(transfer_class)) {
      Transfer& next = transfers_[scheduler_.Front(transfer_class)];
      if (!scheduler_.meter(Arrow::kOnboardNvmeToHost).HasRoom(next.size_bytes) ||
          !StartRead(next)) {
        return false;  // What is less urgent does not pass by; writes wait for all reads.
      }
      scheduler_.Pop(transfer_class);
    }
  }
  if (!takes_offloads_) {
    return false;
  }
  const std::size_t moves = moves_.size();
  StartMoves();
  // A move that was given up may have been the last user of its segment; one that has to be read
  // was queued after the reads were looked at.
  const bool has_moved = moves_.size() != moves || !scheduler_.is_empty(TransferClass::kWriteBack);
  const std::uint32_t wanted = host_.offloads_wanted();
  // One that was given up may have been in the way of a move.
  return StartOffloads() || host_.offloads_wanted() != wanted || has_moved;
}

bool NvmeArrows::NoteIoFailure(const Transfer& transfer) {
  const bool counts =
      health_.NoteFailure(transfer.file_index, transfer.offset_bytes, transfer.status);
  if (counts && store_->NoteFailure(transfer.page)) {
    GiveUpSegment(store_->table().SegmentOf(transfer.page));
  }
  return counts;
}

void NvmeArrows::OnIoDone(tiers::IoOp& op) noexcept {
  auto& transfer = static_cast<Transfer&>(op);
  if (transfer.status.ok()) {
    health_.NoteSuccess(transfer.file_index);
  }
  if (transfer.stage == Stage::kReading) {
    OnReadDone(transfer);
  } else {
    KVFERRY_CHECK(transfer.stage == Stage::kWriting);
    OnWriteDone(transfer);
  }
}

void NvmeArrows::StopOffloads() {
  takes_offloads_ = false;
  report_.Tell(now_, true, store_->commit());
  store_->BeginClose();
}

void NvmeArrows::CountReaders(std::span<std::uint32_t> by_record) const {
  for (const Transfer& transfer : transfers_) {
    if (transfer.stage == Stage::kWriting) {
      ++by_record[static_cast<std::uint32_t>(transfer.record)];
    }
  }
}

void NvmeArrows::Stop() {
  if (std::exchange(is_stopping_, true)) {
    return;
  }
  for (Transfer& transfer : transfers_) {
    if (transfer.stage == Stage::kQueued) {
      scheduler_.Remove(transfer.transfer_class, NumberOf(transfer));
      EndOnboard(transfer, MissReason::kReadFailed);
    }
  }
}

void NvmeArrows::ForgetCopies() {
  KVFERRY_CHECK(is_quiet());
  is_stopping_ = true;
  moves_.Clear();
  for (std::uint32_t number = 0; number < book_.index().records_max(); ++number) {
    const RecordIndex record{number};
    if (!book_.index().is_used(record)) {
      continue;
    }
    book_.index().PrivatePart(record).is_moving = 0;
    SetPersisted(record, false);
    if (book_.index()[record].nvme_state == CopyState::kResident) {
      Evict(record, MissReason::kTierOff);
    }
  }
}

// Counters add to those of the times that the tier was on before.
void NvmeArrows::AddTo(EngineStats& stats) const {
  const auto add = [](ArrowStats& sum, const ArrowStats& own) {
    sum.blocks += own.blocks;
    sum.bytes += own.bytes;
    sum.failures += own.failures;
    sum.bytes_in_flight += own.bytes_in_flight;
  };
  add(stats.offload_host_to_nvme, offload_stats_);
  add(stats.onboard_nvme_to_host, onboard_stats_);
  const std::uint64_t evictions = stats.nvme.evictions;
  stats.nvme = stats_;
  stats.nvme.evictions += evictions;
  stats.failed_checks += failed_checks_;
  NvmeStats& store = stats.nvme_store;
  store.is_on = !is_stopping_;
  store.is_scanned = store_->is_scanned();
  store.blocks_found = nvme_stats_.blocks_found;
  store.bytes_persisted = persisted_bytes_;
  store.bytes_written += budget_.bytes_written();
  store.bytes_moved += nvme_stats_.bytes_moved;
  store.blocks_moved += nvme_stats_.blocks_moved;
  store.blocks_lost += nvme_stats_.blocks_lost;
  store.commits += store_->commit().commits();
  store.commit_failures += store_->commit().failures();
  const Status& failure = store_->commit().failure();
  store.commit_error = failure.ok() ? std::string() : failure.ToString();
  store.segments_reused += store_->reuses();
  store.segments_quarantined += nvme_stats_.segments_quarantined;
  store.offloads_over_budget += nvme_stats_.offloads_over_budget;
}

void NvmeArrows::CheckInvariants() const {
  store_->CheckInvariants();
  TierStats seen;
  std::uint64_t persisted_bytes = 0;
  std::vector<std::uint64_t> live(store_->table().segment_count());
  book_.index().ForEach([&](RecordIndex record) {
    const BlockRecord& block = book_.index()[record];
    const std::uint64_t size = SizeOf(record);
    seen.bytes_filling += block.nvme_state == CopyState::kFilling ? size : 0;
    seen.bytes_resident += block.nvme_state == CopyState::kResident ? size : 0;
    seen.blocks_resident += block.nvme_state == CopyState::kResident ? 1 : 0;
    persisted_bytes += block.is_persisted != 0 ? size : 0;
    KVFERRY_CHECK(block.is_durable == 0 || block.nvme_state == CopyState::kResident);
    KVFERRY_CHECK((block.is_moving != 0) == (moves_.Find(record) != nullptr));
    if (block.nvme_state != CopyState::kAbsent) {
      live[store_->table().SegmentOf(book_.index().use(record).nvme_page)] += size;
    }
  });
  KVFERRY_CHECK(seen.bytes_filling == stats_.bytes_filling);
  KVFERRY_CHECK(seen.bytes_resident == stats_.bytes_resident);
  KVFERRY_CHECK(seen.blocks_resident == stats_.blocks_resident);
  KVFERRY_CHECK(stats_.bytes_free + seen.bytes_filling + seen.bytes_resident == stats_.bytes_total);
  KVFERRY_CHECK(persisted_bytes == persisted_bytes_);
  std::vector<std::uint32_t> users(live.size());
  for (const Transfer& transfer : transfers_) {
    if (transfer.stage != Stage::kFree && transfer.stage != Stage::kWriting) {
      ++users[store_->table().SegmentOf(transfer.page)];
    }
  }
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    ++users[moves_[i].segment];
  }
  for (std::uint32_t segment = 0; segment < live.size(); ++segment) {
    KVFERRY_CHECK(users[segment] + store_->footer_users(segment) == store_->table()[segment].users);
    KVFERRY_CHECK(live[segment] == store_->table()[segment].live_bytes);
  }
}

}  // namespace kvferry::engine
