// NvmeArrows: who leaves a segment that is being emptied, and who stays in the tier.
#include "base/assert.h"
#include "engine/nvme_arrows.h"

namespace kvferry::engine {
namespace {

// What blocks that were hit may take of the next segment: so write amplification stays below 1.1.
constexpr std::uint64_t kKeptShare = 10;
// Moves that one step looks at.
constexpr std::size_t kLookedAtMax = 64;

}  // namespace

void NvmeArrows::OnVictim(std::uint32_t segment) noexcept {
  const std::uint64_t kept_max =
      std::uint64_t{store_->table().pages_per_segment()} * tiers::kIoAlignment / kKeptShare;
  std::uint64_t kept = 0;
  for (const std::uint32_t owner : store_->table().OwnersOf(segment)) {
    const RecordIndex record{owner};
    if (!book_.index().is_used(record) ||
        book_.index()[record].nvme_state != CopyState::kResident ||
        book_.index()[record].is_moving != 0 ||
        store_->table().SegmentOf(book_.index().use(record).nvme_page) != segment) {
      continue;  // It has gone, or lies elsewhere by now.
    }
    BlockRecord& block = book_.index().PrivatePart(record);
    const std::uint64_t size = SizeOf(record);
    const bool is_kept =
        block.is_persisted != 0 || (block.was_hit != 0 && block.is_indexed &&
                                    kept + size <= kept_max && budget_.Allows(now_, size));
    if (!is_kept) {
      ++stats_.evictions;
      if (store_->table()[segment].phase == tiers::SegmentPhase::kQuarantined &&
          store_->commit().CanDelete()) {
        store_->Delete(book_.index().use(record).nvme_page);  // No new life does it.
      }
      Evict(record, MissReason::kEvictedByReuse);
      continue;
    }
    kept += block.is_persisted != 0 ? 0 : size;
    block.was_hit = 0;
    block.is_moving = 1;
    store_->AddUser(segment);
    moves_.Add({.record = record, .segment = segment});
  }
}

void NvmeArrows::EndMove(RecordIndex record) {
  BlockRecord& block = book_.index().PrivatePart(record);
  if (block.is_moving == 0) {
    return;
  }
  block.is_moving = 0;
  SegmentMoves::Move* const move = moves_.Find(record);
  KVFERRY_CHECK(move != nullptr);
  store_->RemoveUser(move->segment);
  moves_.Remove(*move);
}

void NvmeArrows::StartMoves() {
  const std::size_t count = std::min(moves_.size(), kLookedAtMax);
  for (std::size_t looked_at = 0; looked_at < count && !moves_.empty(); ++looked_at) {
    next_move_ = next_move_ < moves_.size() ? next_move_ : 0;
    SegmentMoves::Move& move = moves_[next_move_];
    const std::size_t before = moves_.size();
    if (move.stage == SegmentMoves::Stage::kWaiting && !StartMove(move)) {
      return;
    }
    next_move_ += moves_.size() == before ? 1U : 0U;
  }
}

// False: nothing can be started now.
bool NvmeArrows::StartMove(SegmentMoves::Move& move) {
  const RecordIndex record = move.record;
  const BlockRecord& block = book_.index()[record];
  if (free_.empty() || writes_in_flight_ >= transfers_.size() / 2 || now_ < writes_resume_at_) {
    return false;
  }
  if (block.host_state == CopyState::kResident) {
    if (StartOffload(record, true)) {
      return true;
    }
    if (block.is_persisted == 0 && !store_->HasClean()) {
      GiveUpMove(record);
    }
    return false;
  }
  if (block.host_state != CopyState::kAbsent) {
    return true;  // It is being read, or on its way out.
  }
  HostCache::Claim claim;
  claim.access.now = now_;
  claim.is_needed = block.is_persisted != 0;
  const auto reserved = host_.ReserveAgain(claim, record);
  if (reserved.record != kNoRecord) {
    Onboard(record, TransferClass::kWriteBack, Instant::max());
  } else if (block.is_persisted == 0) {
    GiveUpMove(record);
  }
  return true;
}

void NvmeArrows::GiveUpMove(RecordIndex record) {
  ++stats_.evictions;
  Evict(record, MissReason::kEvictedByReuse);
}

// Too many of its payloads were not what was written.
void NvmeArrows::GiveUpSegment(std::uint32_t segment) {
  ++nvme_stats_.segments_quarantined;
  OnVictim(segment);
}

}  // namespace kvferry::engine
