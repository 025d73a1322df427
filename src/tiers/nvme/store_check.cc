// One segment of each drive at a time: the rows themselves, their payloads, headers and footers.
#include "tiers/nvme/store_check.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace kvferry::tiers {
namespace {

constexpr std::size_t kRowsPerPiece = 10'000;
constexpr std::size_t kDeletesPerBatch = 10'000;

// The rows of a scan, a segment of each drive at a time.
class GroupScan {
 public:
  GroupScan(RocksDatabase& database, std::uint32_t drive_count)
      : database_(database), drive_count_(drive_count) {}

  // Those of the next group; empty at the end. Valid until the next call.
  Result<std::span<const PlacedRow>> Next() {
    rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    while (true) {
      const auto end = std::find_if(rows_.begin(), rows_.end(), [this](const PlacedRow& row) {
        return GroupOf(row) != GroupOf(rows_.front());
      });
      if (end != rows_.end() || is_last_) {
        taken_ = static_cast<std::size_t>(end - rows_.begin());
        return std::span<const PlacedRow>(rows_).first(taken_);
      }
      KVFERRY_ASSIGN_OR_RETURN(const RocksDatabase::ScanPiece piece,
                               database_.ScanNext(kRowsPerPiece));
      rows_.insert(rows_.end(), piece.rows.begin(), piece.rows.end());
      refused_count_ += piece.refused_count;
      is_last_ = piece.is_last;
    }
  }
  std::uint64_t refused_count() const { return refused_count_; }

 private:
  std::uint32_t GroupOf(const PlacedRow& row) const { return row.life.segment / drive_count_; }

  RocksDatabase& database_;
  std::uint32_t drive_count_;
  std::vector<PlacedRow> rows_;
  std::size_t taken_ = 0;
  bool is_last_ = false;
  std::uint64_t refused_count_ = 0;
};

// Rows of a run that is sorted by place.
std::span<const PlacedRow> RowsOf(std::span<const PlacedRow> rows, const SegmentLife& life) {
  const auto begin = std::find_if(rows.begin(), rows.end(),
                                  [&life](const PlacedRow& row) { return row.life == life; });
  const auto end =
      std::find_if(begin, rows.end(), [&life](const PlacedRow& row) { return row.life != life; });
  return {begin, end};
}

// But for what may change after the segment was sealed: the flags, and the namespace's number, when
// a manifest is rebuilt.
bool AreSame(BlockRow first, BlockRow second) {
  first.flags = 0;
  second.flags = 0;
  first.tenant = 0;
  second.tenant = 0;
  return first == second;
}

}  // namespace

std::string_view ToString(DamageKind kind) noexcept {
  switch (kind) {
    case DamageKind::kPayload:
      return "payload";
    case DamageKind::kUnreadable:
      return "unreadable";
    case DamageKind::kRow:
      return "row";
    case DamageKind::kOrphan:
      return "orphan";
    case DamageKind::kOverlap:
      return "overlap";
    case DamageKind::kHeader:
      return "header";
    case DamageKind::kFooter:
      return "footer";
  }
  return "unknown";
}

std::uint64_t StoreFindings::damage_total() const noexcept {
  return std::accumulate(damage_counts.begin(), damage_counts.end(), std::uint64_t{0}) +
         refused_rows;
}

void StoreCheck::Note(DamageKind kind, const BlockPlace& place, std::string how) {
  ++findings_.damage_counts.at(static_cast<std::size_t>(kind));
  if (findings_.damages.size() < StoreFindings::kDamageMax) {
    findings_.damages.push_back({.kind = kind, .place = place, .how = std::move(how)});
  }
}

Result<StoreFindings> StoreCheck::Run(std::atomic<std::uint64_t>& done_bytes) {
  findings_ = {};
  segments_.clear();
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<SegmentRow> rows, parts_.database.ReadSegments());
  for (const SegmentRow& row : rows) {
    if (row.life.segment < parts_.reader.segment_count()) {
      segments_[row.life.segment] = row;
    }
  }
  KVFERRY_RETURN_IF_ERROR(parts_.database.StartScan(nullptr));
  GroupScan scan(parts_.database, parts_.reader.drive_count());
  std::uint32_t next_segment = 0;  // Those before it are done.
  const auto check_until = [&](std::uint32_t end, std::span<const PlacedRow> blocks) {
    for (auto row = segments_.lower_bound(next_segment); row != segments_.end() && row->first < end;
         ++row) {
      CheckSegment(row->second, RowsOf(blocks, row->second.life));
    }
    next_segment = end;
  };
  while (true) {
    KVFERRY_ASSIGN_OR_RETURN(const std::span<const PlacedRow> blocks, scan.Next());
    if (blocks.empty()) {
      break;
    }
    const std::uint32_t drives = parts_.reader.drive_count();
    const std::uint32_t first = blocks.front().life.segment / drives * drives;
    check_until(first, {});
    check_until(first + std::min(drives, UINT32_MAX - first), blocks);
    CheckGroup(blocks, done_bytes);
  }
  check_until(parts_.reader.segment_count(), {});
  findings_.refused_rows = scan.refused_count();
  std::stable_sort(findings_.damages.begin(), findings_.damages.end(),
                   [](const StoreDamage& first, const StoreDamage& second) {
                     return first.place < second.place;
                   });
  return std::move(findings_);
}

// What can be said of a row without looking at the drive; whether its payload can be looked for.
bool StoreCheck::CheckRowItself(const PlacedRow& placed) {
  const BlockRow& row = placed.row;
  const auto segment = segments_.find(placed.life.segment);
  if (segment == segments_.end()) {
    Note(DamageKind::kOrphan, placed.place(), "the store has no such segment in use");
    return false;
  }
  if (segment->second.life != placed.life || segment->second.state == SegmentState::kClean) {
    Note(DamageKind::kOrphan, placed.place(),
         "generation " + std::to_string(placed.life.generation) + " of the segment is over");
    return false;
  }
  const std::uint32_t pages = parts_.layout.pages_per_segment();
  const bool lengths_can_be = row.stored_bytes > 0 && row.raw_bytes > 0 &&
                              row.raw_bytes <= kBlockBytesMax &&
                              (row.codec != 0 || row.stored_bytes == row.raw_bytes);
  if (row.page == 0 || row.page >= pages || !lengths_can_be ||
      PayloadPages(row.stored_bytes) > pages - row.page) {
    Note(DamageKind::kRow, placed.place(),
         std::to_string(row.stored_bytes) + " bytes there, " + std::to_string(row.raw_bytes) +
             " in host form, cannot be");
    return false;
  }
  return true;
}

void StoreCheck::CheckGroup(std::span<const PlacedRow> rows,
                            std::atomic<std::uint64_t>& done_bytes) {
  std::vector<PlacedRow> readable;
  SegmentLife life;
  std::uint32_t end_page = 0;
  for (const PlacedRow& placed : rows) {
    if (!CheckRowItself(placed)) {
      continue;
    }
    if (placed.life == life && placed.row.page < end_page) {
      Note(DamageKind::kOverlap, placed.place(),
           "the block before it goes on to page " + std::to_string(end_page - 1));
    }
    const std::uint32_t end = placed.row.page + PayloadPages(placed.row.stored_bytes);
    end_page = placed.life == life ? std::max(end_page, end) : end;
    life = placed.life;
    if (placed.row.codec != 0) {
      ++findings_.encoded_blocks;
    } else {
      readable.push_back(placed);
      findings_.block_bytes += placed.row.stored_bytes;
    }
  }
  findings_.blocks += readable.size();
  for (BadPayload& bad : parts_.payloads.Run(readable, done_bytes)) {
    Note(bad.is_unreadable ? DamageKind::kUnreadable : DamageKind::kPayload,
         readable[bad.row].place(), std::move(bad.how));
  }
}

// A crash may come between a life's row and its header, when nothing is in the segment yet; or
// while a life ends, when the header is blank and the rows are still there.
void StoreCheck::CheckSegment(const SegmentRow& row, std::span<const PlacedRow> blocks) {
  if (row.state == SegmentState::kClean || (blocks.empty() && row.state != SegmentState::kSealed)) {
    return;
  }
  ++findings_.segments;
  const SegmentHeaderRead header = parts_.reader.ReadHeader(row.life.segment);
  const BlockPlace place{.life = row.life, .page = 0};
  if (header.finding == PageFinding::kBlank) {
    return;
  }
  if (header.finding != PageFinding::kGood) {
    Note(DamageKind::kHeader, place, std::string(header.status.message()));
  } else if (header.header.generation != row.life.generation) {
    Note(DamageKind::kHeader, place,
         "the header is of generation " + std::to_string(header.header.generation) + ", not " +
             std::to_string(row.life.generation));
  }
  if (row.state == SegmentState::kSealed) {
    CheckFooter(row, blocks);
  }
}

// A footer may have rows that the manifest has no more, and lack rows that came back after a crash;
// but what both have of a page is the same.
void StoreCheck::CheckFooter(const SegmentRow& row, std::span<const PlacedRow> blocks) {
  ++findings_.footers;
  const FooterRead footer = parts_.reader.ReadFooterOf(row.life);
  const std::uint32_t last_page = parts_.layout.pages_per_segment() - 1;
  const BlockPlace place{.life = row.life, .page = last_page};
  if (footer.finding != PageFinding::kGood) {
    Note(DamageKind::kFooter, place, std::string(footer.status.message()));
    return;
  }
  if (footer.lost_pages > 0) {
    Note(DamageKind::kFooter, place,
         std::to_string(footer.lost_pages) + " pages of the footer are damaged");
  }
  std::size_t next = 0;
  for (const BlockRow& listed : footer.rows) {
    while (next < blocks.size() && blocks[next].row.page < listed.page) {
      ++next;
    }
    if (next < blocks.size() && blocks[next].row.page == listed.page &&
        !AreSame(blocks[next].row, listed)) {
      Note(DamageKind::kFooter, place,
           "the footer has another block at page " + std::to_string(listed.page) +
               " than the manifest");
      return;
    }
  }
}

Result<StoreCheck::Repair> StoreCheck::Mend(const StoreFindings& findings) {
  Repair repair;
  ManifestBatch batch;
  batch.is_synced = true;
  std::map<std::uint32_t, std::uint32_t> damaged_payloads;
  const auto write = [&]() -> Status {
    KVFERRY_RETURN_IF_ERROR(parts_.database.Write(batch));
    repair.deleted_rows += batch.block_deletes.size();
    batch.Clear();
    return Status::Ok();
  };
  for (const StoreDamage& damage : findings.damages) {
    if (!damage.costs_row()) {
      continue;
    }
    if (damage.kind == DamageKind::kPayload || damage.kind == DamageKind::kUnreadable) {
      ++damaged_payloads[damage.place.life.segment];
    }
    batch.block_deletes.push_back(damage.place);
    if (batch.block_deletes.size() == kDeletesPerBatch) {
      KVFERRY_RETURN_IF_ERROR(write());
    }
  }
  for (const auto& [segment, count] : damaged_payloads) {
    const auto row = segments_.find(segment);
    KVFERRY_CHECK(row != segments_.end());
    if (count >= kQuarantineAt && row->second.state != SegmentState::kQuarantined) {
      row->second.state = SegmentState::kQuarantined;
      batch.segment_puts.push_back(row->second);
      repair.quarantined.push_back(segment);
    }
  }
  if (!batch.block_deletes.empty() || !batch.segment_puts.empty()) {
    KVFERRY_RETURN_IF_ERROR(write());
  }
  return repair;
}

}  // namespace kvferry::tiers
