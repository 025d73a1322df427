// NvmeArrows: who leaves a segment that is being emptied, and who stays in the tier.
#include <algorithm>
#include <chrono>

#include "base/assert.h"
#include "engine/nvme_arrows.h"

namespace kvferry::engine {
namespace {

// What blocks that were hit may take of the next segment: so write amplification stays below 1.1.
constexpr std::uint64_t kKeptShare = 10;
// Moves that one step looks at.
constexpr std::size_t kLookedAtMax = 64;
// Between two attempts to read a block that moves.
constexpr Duration kReadPause = std::chrono::seconds(1);

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
      EvictForReuse(record);
      continue;
    }
    kept += block.is_persisted != 0 ? 0 : size;
    block.was_hit = 0;
    BeginMove(record);
  }
}

// Out of the segment in which it lies.
void NvmeArrows::BeginMove(RecordIndex record) {
  const std::uint32_t segment = store_->table().SegmentOf(book_.index().use(record).nvme_page);
  book_.index().PrivatePart(record).is_moving = 1;
  store_->AddUser(segment);
  moves_.Add({.record = record, .segment = segment});
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
  do_moves_rest_ = false;
  moves_read_at_ = Instant::max();
  bool do_all_rest = true;
  const std::size_t count = std::min(moves_.size(), kLookedAtMax);
  for (std::size_t looked_at = 0; looked_at < count && !moves_.empty(); ++looked_at) {
    next_move_ = next_move_ < moves_.size() ? next_move_ : 0;
    SegmentMoves::Move& move = moves_[next_move_];
    const std::size_t before = moves_.size();
    MoveStart start = MoveStart::kUnderWay;
    if (move.stage == SegmentMoves::Stage::kWaiting) {
      start = StartMove(move);
    }
    if (start == MoveStart::kNotNow) {
      return;
    }
    do_all_rest = do_all_rest && start == MoveStart::kRests;
    next_move_ += moves_.size() == before ? 1U : 0U;
  }
  do_moves_rest_ = do_all_rest;
}

// A segment that is being emptied waits for the move; one in quarantine is not used again, and what
// is in it can stay until there is room, as for any other block.
bool NvmeArrows::IsPressing(const SegmentMoves::Move& move) const {
  return !IsInQuarantine(move.segment);
}

NvmeArrows::MoveStart NvmeArrows::StartMove(SegmentMoves::Move& move) {
  const RecordIndex record = move.record;
  const BlockRecord& block = book_.index()[record];
  if (free_.empty() || writes_in_flight_ >= transfers_.size() / 2 || now_ < writes_resume_at_) {
    return MoveStart::kNotNow;
  }
  if (block.host_state != CopyState::kResident && block.host_state != CopyState::kAbsent) {
    return MoveStart::kUnderWay;  // It is being read, or on its way out.
  }
  if (block.host_state == CopyState::kAbsent && now_ < move.read_at) {
    moves_read_at_ = std::min(moves_read_at_, move.read_at);
    return MoveStart::kRests;
  }
  const auto pages = static_cast<std::uint32_t>(SizeOf(record) / tiers::kIoAlignment);
  if (!store_->MakeRoom(StreamOf(record, true), pages, IsPressing(move))) {
    if (block.is_persisted == 0 && !(IsPressing(move) && store_->HasClean())) {
      EvictForReuse(record);
    }
    return MoveStart::kRests;
  }
  if (block.host_state == CopyState::kAbsent) {
    return BringUp(record);
  }
  return StartOffload(record, true) ? MoveStart::kUnderWay : MoveStart::kNotNow;
}

// Reads a block that moves.
NvmeArrows::MoveStart NvmeArrows::BringUp(RecordIndex record) {
  HostCache::Claim claim;
  claim.access.now = now_;
  claim.is_needed = book_.index()[record].is_persisted != 0;
  const auto reserved = host_.ReserveAgain(claim, record);
  if (reserved.record != kNoRecord) {
    Onboard(record, TransferClass::kWriteBack, Instant::max());
  } else if (!claim.is_needed) {
    EvictForReuse(record);
  }
  return MoveStart::kUnderWay;
}

// Whether nothing leaves the segment but what could not be read.
bool NvmeArrows::AreAllUnreadable(std::uint32_t segment) const {
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    const bool is_here = book_.index()[moves_[i].record].host_state == CopyState::kResident;
    if (moves_[i].segment == segment && (is_here || moves_[i].read_at == Instant())) {
      return false;
    }
  }
  return true;
}

// Where only its own place is bad, it cannot hold up its segment. In quarantine it may stay for as
// long as the tier is on: perhaps a caller can read it.
void NvmeArrows::OnMoveUnreadable(SegmentMoves::Move& move, bool counts) {
  if (counts && move.failed_reads < SegmentMoves::kFailedReadsMax) {
    ++move.failed_reads;
  }
  move.read_at = now_ + kReadPause;
  const bool is_hopeless = move.failed_reads == SegmentMoves::kFailedReadsMax;
  if (!IsPressing(move)) {
    move.read_at = is_hopeless ? Instant::max() : move.read_at;
    return;
  }
  if (!is_hopeless) {
    // Emptying others also shows whether the drive works.
    if (AreAllUnreadable(move.segment)) {
      store_->HoldUp(move.segment);
    }
    return;
  }
  ++nvme_stats_.blocks_lost;
  Withdraw(move.record, true);
}

bool NvmeArrows::IsInQuarantine(std::uint32_t segment) const {
  return store_->table()[segment].phase == tiers::SegmentPhase::kQuarantined;
}

// Of a place that its block leaves. It goes with its segment's life, or, where there will be no
// other one, by itself.
void NvmeArrows::LeaveRow(std::uint32_t page) {
  if (IsInQuarantine(store_->table().SegmentOf(page))) {
    store_->Delete(page);
  }
}

void NvmeArrows::EvictForReuse(RecordIndex record) {
  ++stats_.evictions;
  LeaveRow(book_.index().use(record).nvme_page);
  Evict(record, MissReason::kEvictedByReuse);
}

// Too many of its payloads were not what was written.
void NvmeArrows::GiveUpSegment(std::uint32_t segment) {
  ++nvme_stats_.segments_quarantined;
  OnVictim(segment);
}

}  // namespace kvferry::engine
