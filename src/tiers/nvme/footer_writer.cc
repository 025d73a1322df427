// One write at a time, and rounds of footers that are synced together.
#include "tiers/nvme/footer_writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "tiers/nvme/kill_points.h"
#include "tiers/nvme/segment_footer.h"

namespace kvferry::tiers {
namespace {

// After a failure, so that a drive that takes no writes is not asked all the time.
constexpr Duration kRetryPause = std::chrono::milliseconds(100);
// Attempts at a footer before the header is tried in its place, in turns from then on.
constexpr std::uint32_t kFooterAttempts = 3;

}  // namespace

FooterWriter::FooterWriter(const Options& options, const Parts& parts)
    : options_(options),
      ring_(parts.ring),
      table_(parts.table),
      commit_(parts.commit),
      sink_(parts.sink),
      pages_(FooterPages(options.owners_per_segment_max)),
      syncs_(options.drive_count) {
  sealing_.reserve(kSealingMax);
  rows_.reserve(options.owners_per_segment_max);
  IoSink* io_sink = this;
  op_.kind = IoOp::Kind::kWrite;
  op_.sink = io_sink;
  for (std::uint32_t drive = 0; drive < options.drive_count; ++drive) {
    syncs_[drive].kind = IoOp::Kind::kSyncData;
    syncs_[drive].file_index = drive;
    syncs_[drive].sink = io_sink;
  }
}

void FooterWriter::Seal(std::uint32_t segment) {
  table_[segment].phase = SegmentPhase::kSealing;
  sealing_.push_back(segment);
}

void FooterWriter::GiveUpSealing(std::uint32_t segment) {
  if (work_ != Work::kSealing || sealing_.front() != segment) {
    std::erase(sealing_, segment);
  }
}

bool FooterWriter::MarkStale(std::uint32_t segment) {
  if (!table_[segment].has_footer) {
    return false;
  }
  const bool is_known = std::any_of(stale_.begin(), stale_.end(), [&](const Stale& stale) {
    return stale.segment == segment && stale.generation == table_[segment].generation;
  });
  if (is_known) {
    return false;
  }
  if (stale_.empty()) {
    hold_after_next_ = commit_.queued_deletions();
  }
  if (stale_.empty() && round_.empty()) {
    commit_.HoldDeletionsAfter(hold_after_next_);
  }
  stale_.push_back({.segment = segment, .generation = table_[segment].generation});
  return true;
}

void FooterWriter::Want(std::uint32_t segment) {
  table_[segment].has_footer = true;
  MarkStale(segment);
}

void FooterWriter::Step(Instant now, bool may_rewrite) {
  now_ = now;
  if (work_ != Work::kNone) {
    return;
  }
  if (!sealing_.empty() && table_[sealing_.front()].writers == 0) {
    current_ = sealing_.front();
    Compose(current_);
    if (ring_.Submit(op_).ok()) {
      work_ = Work::kSealing;
      table_[current_].has_footer = true;
    }
    Pass(KillPoint::kFooterBegun);
    return;
  }
  if (!may_rewrite || now_ < retry_at_) {
    return;
  }
  BeginRound();
  GoOn();
}

void FooterWriter::BeginRound() {
  if (!round_.empty() || stale_.empty()) {
    return;
  }
  std::swap(round_, stale_);
  is_syncing_ = false;
  has_sync_failed_ = false;
  sync_failures_ = commit_.sync_failures();
}

// The segment has begun another life, which it does after its header was blanked.
bool FooterWriter::IsFooterGone(const Stale& stale) const {
  return table_[stale.segment].generation != stale.generation;
}

void FooterWriter::GoOn() {
  if (round_.empty() || syncs_in_flight_ > 0) {
    return;
  }
  for (Stale& stale : round_) {
    if (is_syncing_ || stale.is_written || IsFooterGone(stale)) {
      continue;
    }
    Rewrite(stale);
    return;
  }
  if (!std::exchange(is_syncing_, true)) {
    for (const Stale& stale : round_) {
      Sync& sync = syncs_[stale.segment % options_.drive_count];
      sync.is_wanted = sync.is_wanted || stale.is_written;
    }
  }
  StartSyncs();
}

void FooterWriter::Rewrite(Stale& stale) {
  const bool has_header_turn = stale.failures >= kFooterAttempts && stale.failures % 2 == 1;
  current_ = stale.segment;
  if (has_header_turn) {
    ComposeBlankHeader(current_);
  } else {
    Compose(current_);
  }
  if (ring_.Submit(op_).ok()) {
    work_ = Work::kRewriting;
    ++table_[current_].users;  // Its next life has to wait.
  }
}

void FooterWriter::StartSyncs() {
  bool is_done = true;
  for (Sync& sync : syncs_) {
    if (sync.is_wanted && ring_.Submit(sync).ok()) {
      sync.is_wanted = false;
      ++syncs_in_flight_;
    }
    is_done = is_done && !sync.is_wanted;
  }
  if (is_done && syncs_in_flight_ == 0) {
    EndRound();
  }
}

void FooterWriter::EndRound() {
  if (has_sync_failed_) {
    commit_.FailUnsynced();
  }
  if (sync_failures_ != commit_.sync_failures()) {
    FailRound();  // What a failed sync has lost may be a footer.
    return;
  }
  round_.clear();
  commit_.HoldDeletionsAfter(stale_.empty() ? ~std::uint64_t{0} : hold_after_next_);
}

void FooterWriter::FailRound() {
  retry_at_ = now_ + kRetryPause;
  is_syncing_ = false;
  has_sync_failed_ = false;
  sync_failures_ = commit_.sync_failures();
  for (Stale& stale : round_) {
    stale.is_written = false;
  }
}

void FooterWriter::Compose(std::uint32_t segment) {
  rows_.clear();
  for (const std::uint32_t owner : table_.OwnersOf(segment)) {
    BlockRow row;
    if (sink_.FillFooterRow(owner, segment, row)) {
      row.page -= table_.FirstPageOf(segment);
      rows_.push_back(row);
    }
  }
  const auto comes_first = [](const BlockRow& a, const BlockRow& b) {
    return a.page < b.page;
  };
  std::sort(rows_.begin(), rows_.end(), comes_first);
  // An owner that had two payloads here is listed twice, and both times tells of the later one.
  const auto is_same = [](const BlockRow& a, const BlockRow& b) {
    return a.page == b.page;
  };
  rows_.erase(std::unique(rows_.begin(), rows_.end(), is_same), rows_.end());
  const auto row_count = static_cast<std::uint32_t>(rows_.size());
  op_.buffer = {pages_[0].bytes.data(), std::size_t{FooterPages(row_count)} * kDiskPageBytes};
  op_.file_index = segment % options_.drive_count;
  const std::uint32_t local = segment / options_.drive_count;
  EncodeFooter({.segment = {options_.store, op_.file_index, local},
                .generation = table_[segment].generation,
                .pages_per_segment = table_.pages_per_segment()},
               rows_, op_.buffer);
  op_.offset_bytes =
      options_.layout.PageOffset(local, FooterFirstPage(table_.pages_per_segment(), row_count));
}

void FooterWriter::ComposeBlankHeader(std::uint32_t segment) {
  pages_[0].bytes.fill(std::byte{0});
  op_.buffer = pages_[0].bytes;
  op_.file_index = segment % options_.drive_count;
  op_.offset_bytes = options_.layout.PageOffset(segment / options_.drive_count, 0);
}

void FooterWriter::OnIoDone(IoOp& op) noexcept {
  if (&op != &op_) {
    --syncs_in_flight_;
    has_sync_failed_ = has_sync_failed_ || !op.status.ok();
  } else if (std::exchange(work_, Work::kNone) == Work::kSealing) {
    OnFooterDone();
  } else {
    OnRewriteDone();
  }
}

// A footer that could not be written is missed only when the manifest is lost.
void FooterWriter::OnFooterDone() {
  Pass(KillPoint::kFooterWritten);
  const std::uint32_t segment = sealing_.front();
  sealing_.erase(sealing_.begin());
  if (table_[segment].phase != SegmentPhase::kSealing) {
    return;
  }
  table_[segment].phase = SegmentPhase::kSealed;
  commit_.MarkDrive(segment);
  commit_.MarkSegment(segment);
  sink_.OnSealed(segment);
}

void FooterWriter::OnRewriteDone() {
  Pass(KillPoint::kFooterRewritten);
  KVFERRY_CHECK(table_[current_].users > 0);
  --table_[current_].users;
  for (Stale& stale : round_) {
    if (stale.segment != current_) {
      continue;
    }
    if (op_.status.ok()) {
      stale.is_written = true;
    } else {
      ++stale.failures;
      retry_at_ = now_ + kRetryPause;
    }
  }
}

}  // namespace kvferry::tiers
