// Streams, seals and the restart scan.
#include "tiers/nvme/segment_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "tiers/nvme/kill_points.h"
#include "tiers/nvme/manifest_rebuild.h"

namespace kvferry::tiers {
namespace {

// Bursts of failures after which a segment is not used any more.
constexpr std::uint16_t kFailuresMax = 3;
// Rows that one step looks at.
constexpr std::size_t kScannedAtOnce = 1'024;
constexpr Duration kScanPause = std::chrono::milliseconds(1);

std::uint32_t CleanWanted(std::uint32_t segment_count) {
  const std::uint32_t kept_back = segment_count >= kSegmentsToProtect ? 1 : 0;
  return kept_back + std::clamp(segment_count / 100, 1U, 3U);
}

Status CannotBe(const SegmentRow& row, const std::string& why) {
  return Status::Error(StatusCode::kDataLoss, "the manifest's row of segment " +
                                                  std::to_string(row.life.segment) +
                                                  " does not add up: " + why);
}

}  // namespace

Result<std::unique_ptr<SegmentStore>> SegmentStore::Create(const Options& options,
                                                           const Parts& parts) {
  auto store = std::make_unique<SegmentStore>(Token(), options, parts);
  KVFERRY_RETURN_IF_ERROR(store->Restore());
  return store;
}

SegmentStore::SegmentStore(Token /*token*/, const Options& options, const Parts& parts)
    : options_(options),
      ring_(parts.ring),
      manifest_(parts.manifest),
      sink_(parts.sink),
      table_({.segment_count = options.layout.segment_count * options.drive_count,
              .pages_per_segment = options.layout.pages_per_segment(),
              .owners_per_segment_max = options.owners_per_segment_max}),
      found_(kScannedAtOnce) {
  CommitSink& commit_sink = *this;
  commit_ = std::make_unique<GroupCommit>(
      GroupCommit::Options{.drive_count = options.drive_count,
                           .commit_bytes = options.commit_bytes,
                           .commit_time = options.commit_time,
                           .entries_max = options.commit_entries_max},
      GroupCommit::Parts{parts.ring, parts.manifest, table_, commit_sink});
  FooterSink& footer_sink = *this;
  footers_ = std::make_unique<FooterWriter>(
      FooterWriter::Options{.store = options.store,
                            .layout = options.layout,
                            .drive_count = options.drive_count,
                            .owners_per_segment_max = options.owners_per_segment_max},
      FooterWriter::Parts{parts.ring, table_, *commit_, footer_sink});
  ManifestSink* manifest_sink = this;
  dropped_.sink = manifest_sink;
}

Status SegmentStore::Restore() {
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<SegmentRow> rows, manifest_.ReadSegments());
  std::uint64_t newest = 0;
  for (const SegmentRow& row : rows) {
    if (row.life.generation == 0 || row.life.generation >= kPageNumberMax) {
      return CannotBe(row, "generation " + std::to_string(row.life.generation));
    }
    newest = std::max(newest, row.life.generation);
    if (row.life.segment >= table_.segment_count()) {
      SegmentRow gone = row;
      gone.state = SegmentState::kClean;
      dropped_.life_deletes.push_back(row.life);
      dropped_.segment_puts.push_back(gone);
      dropping_ = Dropping::kWanted;
      continue;
    }
    if (row.used_pages > table_.pages_per_segment()) {
      return CannotBe(row, std::to_string(row.used_pages) + " pages are used");
    }
    table_.Restore(row);
    quarantined_ += row.state == SegmentState::kQuarantined ? 1U : 0U;
    if (row.state == SegmentState::kOpen) {
      Stream& stream = streams_[static_cast<std::size_t>(row.stream)];
      if (!stream.found || table_[*stream.found].generation < row.life.generation) {
        stream.found = row.life.segment;
      }
    }
  }
  KVFERRY_ASSIGN_OR_RETURN(const auto marks, manifest_.ReadMeta(kCleanValueName));
  for (const MetaValue& mark : marks) {
    if (mark.name == kCleanValueName) {
      commit_->DeleteMeta(mark.name);  // With the first rows, if not before.
    }
  }
  VictimSink& victim_sink = *this;
  cleaner_ = std::make_unique<SegmentCleaner>(
      SegmentCleaner::Options{.store = options_.store,
                              .layout = options_.layout,
                              .drive_count = options_.drive_count,
                              .clean_wanted = CleanWanted(table_.segment_count()),
                              .next_generation = std::max(newest + 1, options_.first_generation),
                              .unix_ms_minus_now = options_.unix_ms_minus_now},
      SegmentCleaner::Parts{ring_, manifest_, table_, *commit_, victim_sink});
  return Status::Ok();
}

std::uint64_t SegmentStore::OffsetOf(std::uint32_t page) const {
  const std::uint32_t segment = table_.SegmentOf(page);
  return options_.layout.PageOffset(segment / options_.drive_count,
                                    page - table_.FirstPageOf(segment));
}

// One clean segment is kept back for moves, or nothing could be emptied once all are full: what is
// kept of one segment fits another. Not where it is the last one that is not in quarantine.
std::uint32_t SegmentStore::KeptBack() const {
  const std::uint32_t count = table_.segment_count();
  return count >= kSegmentsToProtect && quarantined_ + 1 < count ? 1 : 0;
}

std::optional<std::uint32_t> SegmentStore::Append(SegmentStream of,
                                                  std::uint32_t pages,
                                                  std::uint32_t owner,
                                                  bool is_move) {
  const Stream* const stream = commit_->CanAdd() ? StreamFor(of, pages, is_move) : nullptr;
  if (stream == nullptr) {
    return std::nullopt;
  }
  const auto page = table_.Append(*stream->open, pages, owner);
  KVFERRY_CHECK(page.has_value());
  commit_->Reserve();
  ++table_[*stream->open].writers;
  if (closing_ != Closing::kNo) {
    if (closing_ == Closing::kMarked) {
      commit_->DeleteMeta(std::string(kCleanValueName));
    }
    closing_ = Closing::kWanted;
  }
  return page;
}

// The stream whose open segment has the room. Null: none, for now.
SegmentStore::Stream* SegmentStore::StreamFor(SegmentStream of, std::uint32_t pages, bool is_move) {
  // What the last clean segment was opened for has the room in it first.
  if (KeptBack() > 0 && cleaner_->clean_count() == 0 && !is_move) {
    return nullptr;
  }
  of = table_.segment_count() >= kSegmentsForStreams ? of : SegmentStream::kNormal;
  Stream& stream = streams_[static_cast<std::size_t>(of)];
  const auto has_room = [&](const Stream& candidate) {
    return candidate.open && table_.HasRoom(*candidate.open, pages);
  };
  if (has_room(stream) || OpenNext(of, is_move)) {
    return &stream;
  }
  // The segment that was kept back may have been opened for what moves in the other stream.
  Stream& other = streams_[1 - static_cast<std::size_t>(of)];
  return is_move && has_room(other) ? &other : nullptr;
}

bool SegmentStore::OpenNext(SegmentStream of, bool is_move) {
  Stream& stream = streams_[static_cast<std::size_t>(of)];
  const std::uint32_t kept_back = is_move ? 0 : KeptBack();
  if (stream.open && !footers_->CanSeal()) {
    return false;
  }
  if (cleaner_->clean_count() <= kept_back) {
    // One whose payloads were all lost can be had again; and where quarantine has left nothing else
    // that could be emptied, this one has to be.
    const bool is_lost =
        stream.open && table_[*stream.open].live_bytes == 0 && table_[*stream.open].writers == 0;
    if (is_lost || (stream.open && quarantined_ > 0 && !table_.IsAnyToReuse())) {
      wants_step_ = true;
      footers_->Seal(*std::exchange(stream.open, std::nullopt));
    }
    return false;
  }
  if (stream.open) {
    footers_->Seal(*stream.open);
  }
  wants_step_ = true;
  stream.open = cleaner_->TakeClean();
  table_[*stream.open].phase = SegmentPhase::kOpen;
  table_[*stream.open].stream = of;
  return true;
}

void SegmentStore::Written(std::uint32_t owner, std::uint32_t page, std::uint64_t size_bytes) {
  Pass(KillPoint::kPayloadWritten);
  commit_->Add(owner, page, size_bytes);
}

void SegmentStore::NotWritten(std::uint32_t page) {
  commit_->GiveBack();
  SegmentTable::Segment& segment = table_[table_.SegmentOf(page)];
  KVFERRY_CHECK(segment.writers > 0);
  --segment.writers;
  wants_step_ = wants_step_ || segment.writers == 0;
}

void SegmentStore::OnEntryEnd(std::uint32_t owner,
                              std::uint32_t page,
                              bool is_rewrite,
                              End end,
                              std::uint8_t flags) noexcept {
  if (!is_rewrite) {
    SegmentTable::Segment& segment = table_[table_.SegmentOf(page)];
    KVFERRY_CHECK(segment.writers > 0);
    --segment.writers;
  }
  sink_.OnEntryEnd(owner, page, is_rewrite, end, flags);
}

void SegmentStore::RemoveUser(std::uint32_t segment) {
  KVFERRY_CHECK(table_[segment].users > 0);
  --table_[segment].users;
  wants_step_ = wants_step_ || table_[segment].users == 0;
}

void SegmentStore::AddLive(std::uint32_t page, std::uint64_t size_bytes) {
  table_[table_.SegmentOf(page)].live_bytes += size_bytes;
}

void SegmentStore::RemoveLive(std::uint32_t page, std::uint64_t size_bytes) {
  SegmentTable::Segment& segment = table_[table_.SegmentOf(page)];
  KVFERRY_CHECK(segment.live_bytes >= size_bytes);
  segment.live_bytes -= size_bytes;
  wants_step_ = wants_step_ || segment.live_bytes == 0;
  if (segment.stream == SegmentStream::kProtected || segment.live_bytes == 0) {
    cleaner_->Look();
  }
}

bool SegmentStore::NoteFailure(std::uint32_t page) {
  const std::uint32_t number = table_.SegmentOf(page);
  SegmentTable::Segment& segment = table_[number];
  const bool holds = segment.phase == SegmentPhase::kOpen ||
                     segment.phase == SegmentPhase::kSealing ||
                     segment.phase == SegmentPhase::kSealed;
  if (!holds) {
    return false;
  }
  segment.failures = std::min<std::uint16_t>(segment.failures + 1U, kFailuresMax);
  const bool can_spare = table_.segment_count() - quarantined_ > UsableMin(table_.segment_count());
  if (segment.failures < kFailuresMax || !can_spare) {
    return false;
  }
  segment.phase = SegmentPhase::kQuarantined;
  ++quarantined_;
  for (Stream& stream : streams_) {
    stream.open = stream.open == number ? std::nullopt : stream.open;
    stream.found = stream.found == number ? std::nullopt : stream.found;
  }
  footers_->GiveUpSealing(number);
  commit_->MarkSegment(number);
  return true;
}

bool SegmentStore::Scan() {
  const Result<Manifest::ScanPiece> piece = manifest_.ScanNext(found_);
  if (!piece.ok()) {
    if (piece.status().code() != StatusCode::kUnavailable) {
      scan_status_ = piece.status();
    }
    return false;
  }
  for (std::size_t i = 0; i < piece->row_count; ++i) {
    const PlacedRow& placed = found_[i];
    if (placed.life.segment >= table_.segment_count()) {
      continue;
    }
    const std::uint32_t number = placed.life.segment;
    const SegmentTable::Segment& segment = table_[number];
    // Of one in quarantine only what persists: rows of others that were evicted from it may be
    // there still, and no new life ends that.
    const bool holds = segment.phase == SegmentPhase::kOpen ||
                       segment.phase == SegmentPhase::kSealed ||
                       (segment.phase == SegmentPhase::kQuarantined &&
                        (placed.row.flags & BlockRow::kProtected) != 0);
    if (segment.generation != placed.life.generation || !holds || placed.row.page == 0 ||
        placed.row.page > segment.used_pages ||
        PayloadPages(placed.row.stored_bytes) > segment.used_pages - placed.row.page) {
      continue;
    }
    const std::uint32_t page = table_.FirstPageOf(number) + placed.row.page;
    std::uint32_t owner = kNoOwner;
    if (segment.owner_count < table_.owners_per_segment_max()) {
      owner = sink_.OnFound(placed.row, page, placed.life.generation);
    }
    if (owner != kNoOwner) {
      table_.AddOwner(number, owner);
    } else {
      Delete(page);
    }
  }
  if (piece->is_last) {
    EndScan();
  }
  return piece->row_count > 0 || piece->is_last;
}

// Segments that were open go on, one of each stream, or are sealed as they are.
void SegmentStore::EndScan() {
  is_scanned_ = true;
  for (Stream& stream : streams_) {
    if (stream.found && !stream.open) {
      stream.open = stream.found;
    }
    stream.found.reset();
  }
  for (std::uint32_t segment = 0; segment < table_.segment_count(); ++segment) {
    const bool is_current = streams_[0].open == segment || streams_[1].open == segment;
    if (table_[segment].phase == SegmentPhase::kOpen && !is_current) {
      footers_->Seal(segment);
    }
  }
  // What was not moved out of a segment in quarantine before the restart is now.
  for (std::uint32_t segment = 0; segment < table_.segment_count(); ++segment) {
    if (table_[segment].phase == SegmentPhase::kQuarantined) {
      sink_.OnVictim(segment);
    }
  }
  cleaner_->Look();
}

void SegmentStore::OnManifestDone(ManifestBatch& batch) noexcept {
  dropping_ = batch.status.ok() ? Dropping::kNothing : Dropping::kWanted;
}

void SegmentStore::BeginClose() {
  if (closing_ == Closing::kNo) {
    closing_ = Closing::kWanted;
  }
}

void SegmentStore::GoOnClosing() {
  if (!commit_->is_idle() || !footers_->is_idle()) {
    return;
  }
  if (closing_ == Closing::kWanted) {
    for (const Stream& stream : streams_) {
      // Before the scan has ended nobody knows what is in it; and nothing is new.
      if (is_scanned_ && stream.open) {
        footers_->Want(*stream.open);
      }
    }
    closing_ = Closing::kFooters;
  } else if (closing_ == Closing::kFooters) {
    commit_->PutMeta(std::string(kCleanValueName), "1");
    commit_->Hurry();
    closing_ = Closing::kMarked;
  }
}

bool SegmentStore::Step(Instant now) {
  now_ = now;
  wants_step_ = false;
  GoOnClosing();
  if (dropping_ == Dropping::kWanted && manifest_.Submit(dropped_).ok()) {
    dropping_ = Dropping::kInFlight;
  }
  commit_->Step(now);
  footers_->Step(now, is_scanned_);
  cleaner_->Step(now, is_scanned_);
  return !is_scanned_ && scan_status_.ok() && Scan();
}

Instant SegmentStore::next_deadline() const noexcept {
  const bool is_closing = closing_ == Closing::kWanted || closing_ == Closing::kFooters;
  if (wants_step_ || (is_closing && commit_->is_idle() && footers_->is_idle())) {
    return now_;  // The next step goes on with it.
  }
  const Instant next =
      std::min({commit_->next_deadline(), footers_->next_deadline(), cleaner_->next_deadline()});
  return is_scanned_ ? next : std::min(next, now_ + kScanPause);
}

bool SegmentStore::is_quiet() const noexcept {
  return commit_->is_quiet() && cleaner_->is_quiet() && footers_->is_quiet() &&
         dropping_ != Dropping::kInFlight;
}

bool SegmentStore::is_idle() const noexcept {
  return commit_->is_idle() && is_quiet() && footers_->is_idle() &&
         (closing_ == Closing::kNo || closing_ == Closing::kMarked);
}

void SegmentStore::CheckInvariants() const {
  table_.CheckInvariants();
  for (const Stream& stream : streams_) {
    KVFERRY_CHECK(!stream.open || table_[*stream.open].phase == SegmentPhase::kOpen);
  }
}

}  // namespace kvferry::tiers
