// Collect, sync, record; and what a failure costs.
#include "tiers/nvme/group_commit.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "tiers/nvme/kill_points.h"

namespace kvferry::tiers {
namespace {

// Deletions that one batch takes along.
constexpr std::size_t kDeletionsAtOnce = 4'096;
// Between attempts at a manifest that is out of order.
constexpr Duration kRetryPause = std::chrono::milliseconds(10);

// What the manifest is told of a segment in this phase; nothing where another batch has told it of
// the segment's next life.
std::optional<SegmentState> StateOf(SegmentPhase phase) {
  switch (phase) {
    case SegmentPhase::kOpen:
    case SegmentPhase::kSealing:
      return SegmentState::kOpen;
    case SegmentPhase::kSealed:
    case SegmentPhase::kEmptying:
      return SegmentState::kSealed;
    case SegmentPhase::kQuarantined:
      return SegmentState::kQuarantined;
    case SegmentPhase::kUnused:
    case SegmentPhase::kPreparing:
    case SegmentPhase::kClean:
      break;
  }
  return std::nullopt;
}

}  // namespace

GroupCommit::GroupCommit(const Options& options, const Parts& parts)
    : options_(options),
      ring_(parts.ring),
      manifest_(parts.manifest),
      table_(parts.table),
      sink_(parts.sink),
      groups_(kGroups) {
  ManifestSink* manifest_sink = this;
  IoSink* io_sink = this;
  for (std::uint32_t number = 0; number < kGroups; ++number) {
    Group& group = groups_[number];
    group.entries.reserve(options.entries_max);
    group.block_puts.reserve(options.entries_max);
    group.block_deletes.reserve(kDeletionsAtOnce);
    group.segments.reserve(options.entries_max);
    group.segment_puts.reserve(options.entries_max);
    group.sink = manifest_sink;
    group.syncs.resize(options.drive_count);
    for (std::uint32_t drive = 0; drive < options.drive_count; ++drive) {
      Sync& sync = group.syncs[drive];
      sync.kind = IoOp::Kind::kSyncData;
      sync.file_index = drive;
      sync.sink = io_sink;
      sync.group = number;
    }
  }
  groups_[0].phase = Phase::kCollecting;
}

BlockPlace GroupCommit::PlaceOf(std::uint32_t page) const {
  const std::uint32_t segment = table_.SegmentOf(page);
  return {{segment, table_[segment].generation}, page - table_.FirstPageOf(segment)};
}

bool GroupCommit::CanAdd() const noexcept {
  return Newest().entries.size() + reserved_ < options_.entries_max;
}

void GroupCommit::Reserve() {
  KVFERRY_CHECK(CanAdd());
  ++reserved_;
}

void GroupCommit::GiveBack() {
  KVFERRY_CHECK(reserved_ > 0);
  --reserved_;
}

void GroupCommit::NoteFirst() {
  if (!has_first_) {
    has_first_ = true;
    first_at_ = now_;
  }
}

void GroupCommit::TouchSegment(Group& group, std::uint32_t segment) {
  // Neighbours in the group lie in the same segments, so the end of the list is where to look.
  if (std::find(group.segments.rbegin(), group.segments.rend(), segment) == group.segments.rend()) {
    group.segments.push_back(segment);
  }
}

void GroupCommit::Add(std::uint32_t owner, std::uint32_t page, std::uint64_t size_bytes) {
  GiveBack();
  KVFERRY_CHECK(CanAdd());
  Group& group = Newest();
  group.entries.push_back({owner, page, false});
  group.size_bytes += size_bytes;
  group.syncs[DriveOf(page)].state = Sync::State::kWanted;
  NoteFirst();
}

void GroupCommit::Rewrite(std::uint32_t owner, std::uint32_t page) {
  KVFERRY_CHECK(CanAdd());
  Newest().entries.push_back({owner, page, true});
  NoteFirst();
}

void GroupCommit::Queue(const BlockPlace& place) {
  deletions_.push_back(place);
  NoteFirst();
}

std::uint64_t GroupCommit::Delete(std::uint32_t page) {
  Queue(PlaceOf(page));
  return queued_deletions();
}

void GroupCommit::HoldDeletionsAfter(std::uint64_t number) {
  const std::size_t before = DeletionsToGo();
  deletions_held_after_ = number;
  if (DeletionsToGo() > before) {
    NoteFirst();
  }
}

std::size_t GroupCommit::DeletionsToGo() const noexcept {
  const std::uint64_t gone = deletions_done_ + deletions_in_flight_;
  const std::uint64_t free = deletions_held_after_ > gone ? deletions_held_after_ - gone : 0;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(free, deletions_.size() - deletions_in_flight_));
}

void GroupCommit::MarkSegment(std::uint32_t segment) {
  TouchSegment(Newest(), segment);
  NoteFirst();
}

void GroupCommit::MarkDrive(std::uint32_t segment) {
  Newest().syncs[segment % options_.drive_count].state = Sync::State::kWanted;
  NoteFirst();
}

void GroupCommit::PutMeta(const std::string& name, const std::string& value) {
  std::erase_if(meta_puts_, [&](const MetaValue& put) { return put.name == name; });
  meta_puts_.push_back({name, value});
  NoteFirst();
}

void GroupCommit::DeleteMeta(const std::string& name) {
  // Deletions come first in a batch: a value that was put in the same one must not come back.
  std::erase_if(meta_puts_, [&](const MetaValue& put) { return put.name == name; });
  meta_deletes_.push_back(name);
  DeleteNothing();  // No batch before the value's carries it.
}

bool GroupCommit::HasPending() const noexcept {
  const Group& group = Newest();
  return !group.entries.empty() || !group.segments.empty() || DeletionsToGo() > 0 ||
         !meta_puts_.empty() || !meta_deletes_.empty();
}

bool GroupCommit::is_quiet() const noexcept {
  return std::all_of(groups_.begin(), groups_.end(), [](const Group& group) {
    return group.phase != Phase::kRecording &&
           std::none_of(group.syncs.begin(), group.syncs.end(),
                        [](const Sync& sync) { return sync.state == Sync::State::kInFlight; });
  });
}

bool GroupCommit::is_idle() const noexcept {
  return count_ == 1 && !HasPending() && is_quiet();
}

bool GroupCommit::IsToClose() const noexcept {
  const Group& newest = Newest();
  return is_hurried_ || newest.size_bytes >= options_.commit_bytes ||
         newest.entries.size() == options_.entries_max || DeletionsToGo() >= kDeletionsAtOnce;
}

Instant GroupCommit::next_deadline() const noexcept {
  Instant close = Instant::max();
  if (HasPending() && count_ < kGroups) {
    close = IsToClose() ? now_ : has_first_ ? first_at_ + options_.commit_time : Instant::max();
  }
  // A full manifest tells when it has room again; a closed one does not.
  const bool waits = groups_[first_].phase == Phase::kSynced && retry_at_ > now_;
  return waits ? std::min(close, retry_at_) : close;
}

void GroupCommit::Step(Instant now) {
  now_ = now;
  if (HasPending() && count_ < kGroups &&
      (IsToClose() || now - first_at_ >= options_.commit_time)) {
    Close();
  }
  for (std::size_t i = 0; i < count_; ++i) {
    Group& group = groups_[(first_ + i) % kGroups];
    if (group.phase == Phase::kSyncing) {
      StartSyncs(group);
    }
    if (group.phase == Phase::kSynced) {
      Record(group);
    }
    if (group.phase != Phase::kRecording) {
      break;  // Those behind it are recorded after it; but they may sync meanwhile.
    }
  }
  for (std::size_t i = 0; i < count_; ++i) {
    Group& group = groups_[(first_ + i) % kGroups];
    if (group.phase == Phase::kSyncing) {
      StartSyncs(group);
    }
  }
}

void GroupCommit::Close() {
  Newest().phase = Phase::kSyncing;
  ++count_;
  Group& fresh = Newest();
  KVFERRY_CHECK(fresh.phase == Phase::kFree);
  fresh.phase = Phase::kCollecting;
  is_hurried_ = false;
  has_first_ = false;
}

void GroupCommit::StartSyncs(Group& group) {
  bool is_synced = true;
  for (Sync& sync : group.syncs) {
    if (sync.state == Sync::State::kWanted && ring_.Submit(sync).ok()) {
      sync.state = Sync::State::kInFlight;
      Pass(KillPoint::kSyncBegun);
    }
    is_synced = is_synced && sync.state == Sync::State::kNone;
  }
  if (is_synced) {
    group.phase = Phase::kSynced;
  }
}

void GroupCommit::OnIoDone(IoOp& op) noexcept {
  auto& sync = static_cast<Sync&>(op);
  Group& group = groups_[sync.group];
  KVFERRY_CHECK(group.phase == Phase::kSyncing && sync.state == Sync::State::kInFlight);
  sync.state = Sync::State::kNone;
  Pass(KillPoint::kSyncEnded);
  if (!sync.status.ok()) {
    FailUnsynced();
  }
}

// After a failed sync the kernel has forgotten what it could not write, and the drive may have:
// neither tells which payloads those were, so none that is not synced counts.
void GroupCommit::FailUnsynced() {
  ++sync_failures_;
  for (std::size_t i = 0; i < count_; ++i) {
    Group& group = groups_[(first_ + i) % kGroups];
    if (group.phase == Phase::kCollecting || group.phase == Phase::kSyncing) {
      failures_ += group.entries.empty() ? 0U : 1U;
      EndEntries(group, CommitSink::End::kLost);
    }
  }
}

void GroupCommit::EndEntries(Group& group, CommitSink::End end) {
  // The sink may bring about deletions and rewrites, never another call of this.
  const std::size_t count = group.entries.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Entry entry = group.entries[i];
    const std::uint8_t flags =
        end == CommitSink::End::kDurable ? group.block_puts[i].row.flags : std::uint8_t{0};
    sink_.OnEntryEnd(entry.owner, entry.page, entry.is_rewrite, end, flags);
  }
  group.entries.erase(group.entries.begin(),
                      group.entries.begin() + static_cast<std::ptrdiff_t>(count));
  group.size_bytes = 0;
}

void GroupCommit::FillBatch(Group& group) {
  group.Clear();
  group.is_synced = true;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < group.entries.size(); ++i) {
    const Entry entry = group.entries[i];
    PlacedRow placed;
    if (!sink_.FillRow(entry.owner, entry.page, placed.row)) {
      sink_.OnEntryEnd(entry.owner, entry.page, entry.is_rewrite, CommitSink::End::kUnwanted, 0);
      continue;
    }
    const BlockPlace place = PlaceOf(entry.page);
    placed.life = place.life;
    placed.row.page = place.page;
    SegmentTable::Segment& segment = table_[place.life.segment];
    segment.used_pages =
        std::max(segment.used_pages, place.page + PayloadPages(placed.row.stored_bytes));
    TouchSegment(group, place.life.segment);
    group.block_puts.push_back(placed);
    group.entries[kept++] = entry;
  }
  group.entries.resize(kept);
  for (const std::uint32_t segment : group.segments) {
    if (const auto state = StateOf(table_[segment].phase)) {
      group.segment_puts.push_back(table_.RowOf(segment, *state));
    }
  }
  TakeDeletions(group);
  group.meta_puts = std::exchange(meta_puts_, {});
  group.meta_deletes = std::exchange(meta_deletes_, {});
}

void GroupCommit::TakeDeletions(Group& group) {
  const std::size_t count = std::min(kDeletionsAtOnce, DeletionsToGo());
  const auto first = deletions_.begin() + static_cast<std::ptrdiff_t>(deletions_in_flight_);
  group.block_deletes.assign(first, first + static_cast<std::ptrdiff_t>(count));
  deletions_in_flight_ += count;
  group.deletion_count = static_cast<std::uint32_t>(count);
}

void GroupCommit::Record(Group& group) {
  if (now_ < retry_at_ || manifest_.in_flight() == manifest_.in_flight_max()) {
    return;
  }
  FillBatch(group);
  if (const Status taken = manifest_.Submit(group); taken.ok()) {
    group.phase = Phase::kRecording;
    Pass(KillPoint::kBatchBegun);
    return;
  }
  // The manifest opens its store again; what was to be recorded waits for that.
  retry_at_ = now_ + kRetryPause;
  deletions_in_flight_ -= group.deletion_count;
  group.deletion_count = 0;
  meta_puts_ = std::exchange(group.meta_puts, {});
  meta_deletes_ = std::exchange(group.meta_deletes, {});
}

void GroupCommit::OnManifestDone(ManifestBatch& batch) noexcept {
  auto& group = static_cast<Group&>(batch);
  KVFERRY_CHECK(&group == &groups_[first_] && group.phase == Phase::kRecording);
  Pass(KillPoint::kBatchEnded);
  first_ = (first_ + 1) % kGroups;
  --count_;
  const std::size_t deleted = std::exchange(group.deletion_count, 0U);
  deletions_in_flight_ -= deleted;
  if (batch.status.ok()) {
    failure_ = Status::Ok();
    deletions_.erase(deletions_.begin(), deletions_.begin() + static_cast<std::ptrdiff_t>(deleted));
    deletions_done_ += deleted;
    commits_ += group.entries.empty() ? 0U : 1U;
    EndEntries(group, CommitSink::End::kDurable);
    group.segments.clear();
  } else {
    failure_ = failure_.ok() ? batch.status : failure_;
    // All batches behind it fail too, so that the deletions are in their old order again.
    failures_ += group.entries.empty() ? 0U : 1U;
    for (const Entry& entry : group.entries) {
      if (!entry.is_rewrite) {
        Delete(entry.page);
      }
    }
    for (MetaValue& value : group.meta_puts) {
      const bool is_stale =
          std::any_of(meta_puts_.begin(), meta_puts_.end(),
                      [&](const MetaValue& put) { return put.name == value.name; }) ||
          std::find(meta_deletes_.begin(), meta_deletes_.end(), value.name) != meta_deletes_.end();
      if (!is_stale) {
        meta_puts_.push_back(std::move(value));
      }
    }
    for (std::string& name : group.meta_deletes) {
      meta_deletes_.push_back(std::move(name));
    }
    for (const std::uint32_t segment : std::exchange(group.segments, {})) {
      MarkSegment(segment);
    }
    group.segments.reserve(options_.entries_max);
    EndEntries(group, CommitSink::End::kLost);
    NoteFirst();
  }
  group.Clear();
  group.phase = Phase::kFree;
}

}  // namespace kvferry::tiers
