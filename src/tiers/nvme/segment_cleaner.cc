// One slot for each segment on its way from one life to the next.
#include "tiers/nvme/segment_cleaner.h"

#include <algorithm>

#include "base/assert.h"
#include "tiers/nvme/kill_points.h"
#include "tiers/nvme/segment_header.h"

namespace kvferry::tiers {
namespace {

// After a failure, so that a drive that takes no writes is not asked all the time.
constexpr Duration kRetryPause = std::chrono::milliseconds(100);

}  // namespace

SegmentCleaner::SegmentCleaner(const Options& options, const Parts& parts)
    : options_(options),
      ring_(parts.ring),
      manifest_(parts.manifest),
      table_(parts.table),
      commit_(parts.commit),
      sink_(parts.sink),
      headers_(kSlots),
      slots_(kSlots),
      next_generation_(options.next_generation) {
  clean_.reserve(kSlots);
  IoSink* io_sink = this;
  ManifestSink* manifest_sink = this;
  for (std::size_t number = 0; number < kSlots; ++number) {
    Slot& slot = slots_[number];
    slot.op.slot = number;
    slot.op.sink = io_sink;
    slot.op.buffer = headers_[number].bytes;
    slot.batch.slot = number;
    slot.batch.sink = manifest_sink;
  }
}

bool SegmentCleaner::AreRowsGone(std::uint64_t up_to_victim) const noexcept {
  return std::none_of(slots_.begin(), slots_.end(), [up_to_victim](const Slot& slot) {
    return slot.victim != 0 && slot.victim <= up_to_victim && slot.stage != Stage::kFree &&
           slot.stage <= Stage::kRecording;
  });
}

std::optional<std::uint32_t> SegmentCleaner::TakeClean() {
  if (clean_.empty()) {
    return std::nullopt;
  }
  const std::uint32_t segment = clean_.front();
  clean_.erase(clean_.begin());
  Look();
  return segment;
}

bool SegmentCleaner::is_quiet() const noexcept {
  return std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.stage == Stage::kBlanking || slot.stage == Stage::kForgetting ||
           slot.stage == Stage::kRecording || slot.stage == Stage::kHeading ||
           slot.stage == Stage::kSyncing;
  });
}

Instant SegmentCleaner::next_deadline() const noexcept {
  Instant next = Instant::max();
  for (const Slot& slot : slots_) {
    // Without a pause it is a full ring that is waited for, whose operations end by themselves.
    if (slot.stage != Stage::kFree && slot.retry_at > now_) {
      next = std::min(next, slot.retry_at);
    }
  }
  return next;
}

void SegmentCleaner::Step(Instant now, bool may_empty) {
  now_ = now;
  BeginNext(may_empty);
  for (Slot& slot : slots_) {
    Advance(slot);
  }
}

void SegmentCleaner::BeginNext(bool may_empty) {
  std::size_t under_way = clean_.size();
  bool is_emptying = false;
  for (const Slot& slot : slots_) {
    if (slot.stage == Stage::kEmptying && table_[slot.segment].is_held_up) {
      continue;  // Others go on meanwhile.
    }
    under_way += slot.stage != Stage::kFree ? 1 : 0;
    is_emptying = is_emptying || slot.stage == Stage::kEmptying;
  }
  for (Slot& slot : slots_) {
    if (clean_.size() >= options_.clean_wanted || has_looked_) {
      return;
    }
    if (slot.stage != Stage::kFree) {
      continue;
    }
    // Those that hold nothing come first, also where others are waited for that cannot be emptied.
    std::optional<std::uint32_t> next = table_.FirstEmpty();
    if (next && table_[*next].phase == SegmentPhase::kSealed && !may_empty) {
      next.reset();
    }
    // One after the other: what is kept of one fits the segment that is kept back, of two perhaps
    // not.
    if (!next && may_empty && !is_emptying && under_way < options_.clean_wanted) {
      next = table_.Oldest();
    }
    if (!next) {
      has_looked_ = may_empty;
      return;
    }
    ++under_way;
    is_emptying = true;
    slot.segment = *next;
    slot.old_generation = table_[*next].generation;
    slot.retry_at = now_;
    slot.stage = Stage::kEmptying;
    const bool is_victim = table_[*next].phase == SegmentPhase::kSealed;
    table_[*next].phase = SegmentPhase::kEmptying;
    slot.victim = is_victim ? ++reuses_ : 0;
    if (is_victim) {
      sink_.OnVictim(*next);
    }
  }
}

void SegmentCleaner::Advance(Slot& slot) {
  const SegmentTable::Segment& segment = table_[slot.segment];
  if (slot.stage == Stage::kEmptying && segment.phase == SegmentPhase::kQuarantined) {
    slot.stage = Stage::kFree;
    Look();
  }
  const bool is_drained = segment.users == 0 && segment.live_bytes == 0;
  if (slot.stage == Stage::kEmptying && is_drained && slot.old_generation == 0) {
    slot.stage = Stage::kForgotten;  // No header of it counts.
  }
  if (slot.stage == Stage::kForgotten && is_drained) {
    BeginLife(slot);
  }
  if (now_ < slot.retry_at) {
    return;
  }
  if (slot.stage == Stage::kEmptying && is_drained) {
    BlankHeader(slot);
  }
  if (slot.stage == Stage::kBlanked) {
    Sync(slot, Stage::kForgetting);
  }
  if (slot.stage == Stage::kDrained) {
    Record(slot);
  }
  if (slot.stage == Stage::kRecorded) {
    WriteHeader(slot);
  }
  if (slot.stage == Stage::kHeaded) {
    Sync(slot, Stage::kSyncing);
  }
}

void SegmentCleaner::BeginLife(Slot& slot) {
  Look();
  table_.Begin(slot.segment, next_generation_++);
  table_[slot.segment].opened_unix_ms =
      options_.unix_ms_minus_now +
      std::chrono::duration_cast<std::chrono::milliseconds>(now_.time_since_epoch()).count();
  slot.stage = Stage::kDrained;
}

void SegmentCleaner::BlankHeader(Slot& slot) {
  headers_[slot.op.slot].bytes.fill(std::byte{0});
  slot.op.kind = IoOp::Kind::kWrite;
  slot.op.file_index = slot.segment % options_.drive_count;
  slot.op.offset_bytes = options_.layout.PageOffset(slot.segment / options_.drive_count, 0);
  slot.sync_failures = commit_.sync_failures();
  if (ring_.Submit(slot.op).ok()) {
    slot.stage = Stage::kBlanking;
  }
}

void SegmentCleaner::Sync(Slot& slot, Stage stage) {
  slot.op.kind = IoOp::Kind::kSyncData;
  if (ring_.Submit(slot.op).ok()) {
    slot.stage = stage;
  }
}

void SegmentCleaner::Retry(Slot& slot, Stage stage) {
  slot.stage = stage;
  slot.retry_at = now_ + kRetryPause;
}

void SegmentCleaner::Record(Slot& slot) {
  slot.batch.Clear();
  slot.batch.is_synced = true;
  if (slot.old_generation != 0) {
    slot.batch.life_deletes.push_back({slot.segment, slot.old_generation});
  }
  slot.batch.segment_puts.push_back(table_.RowOf(slot.segment, SegmentState::kClean));
  if (manifest_.Submit(slot.batch).ok()) {
    slot.stage = Stage::kRecording;
    Pass(KillPoint::kReuseBegun);
  } else {
    Retry(slot, Stage::kDrained);
  }
}

void SegmentCleaner::OnManifestDone(ManifestBatch& batch) noexcept {
  Slot& slot = slots_[static_cast<LifeBatch&>(batch).slot];
  KVFERRY_CHECK(slot.stage == Stage::kRecording);
  Pass(KillPoint::kReuseRecorded);
  if (batch.status.ok()) {
    slot.stage = Stage::kRecorded;
  } else {
    Retry(slot, Stage::kDrained);  // The same rows again do no harm where the batch was recorded.
  }
}

void SegmentCleaner::WriteHeader(Slot& slot) {
  const std::uint32_t drive = slot.segment % options_.drive_count;
  const std::uint32_t local = slot.segment / options_.drive_count;
  const SegmentTable::Segment& segment = table_[slot.segment];
  EncodeSegmentHeader({.identity = {options_.store, drive, local},
                       .generation = segment.generation,
                       .stream = SegmentStream::kNormal,
                       .opened_unix_ms = segment.opened_unix_ms},
                      DiskPage(headers_[slot.op.slot].bytes));
  slot.op.kind = IoOp::Kind::kWrite;
  slot.op.file_index = drive;
  slot.op.offset_bytes = options_.layout.PageOffset(local, 0);
  slot.sync_failures = commit_.sync_failures();
  if (ring_.Submit(slot.op).ok()) {
    slot.stage = Stage::kHeading;
  }
}

void SegmentCleaner::OnIoDone(IoOp& op) noexcept {
  Slot& slot = slots_[static_cast<HeaderOp&>(op).slot];
  if (slot.stage == Stage::kBlanking || slot.stage == Stage::kHeading) {
    OnWritten(slot);
  } else {
    OnSynced(slot);
  }
}

void SegmentCleaner::OnWritten(Slot& slot) {
  const bool is_blank = slot.stage == Stage::kBlanking;
  Pass(is_blank ? KillPoint::kBlankWritten : KillPoint::kHeaderWritten);
  if (slot.op.status.ok()) {
    slot.stage = is_blank ? Stage::kBlanked : Stage::kHeaded;
  } else {
    Retry(slot, is_blank ? Stage::kEmptying : Stage::kRecorded);
  }
}

void SegmentCleaner::OnSynced(Slot& slot) {
  KVFERRY_CHECK(slot.stage == Stage::kForgetting || slot.stage == Stage::kSyncing);
  const bool is_blank = slot.stage == Stage::kForgetting;
  Pass(is_blank ? KillPoint::kBlankSynced : KillPoint::kHeaderSynced);
  if (!slot.op.status.ok()) {
    commit_.FailUnsynced();
  }
  if (slot.sync_failures != commit_.sync_failures()) {
    // What the failed sync has lost may be this header.
    Retry(slot, is_blank ? Stage::kEmptying : Stage::kRecorded);
    return;
  }
  if (is_blank) {
    slot.stage = Stage::kForgotten;
    return;
  }
  slot.stage = Stage::kFree;
  Look();
  table_[slot.segment].phase = SegmentPhase::kClean;
  clean_.push_back(slot.segment);
}

}  // namespace kvferry::tiers
