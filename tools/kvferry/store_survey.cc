// The manifest's rows where there is one, what the segments say of themselves where there is none.
#include "store_survey.h"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <utility>

#include "tiers/nvme/manifest_rebuild.h"
#include "tiers/nvme/store_reader.h"

namespace kvferry::tool {
namespace {

constexpr std::size_t kRowsPerPiece = 10'000;

// The values "namespace/<number>": "<id in hex> <block_bytes> <tenant>". Others are of lost blocks,
// or of a later version.
void ReadNamespaces(const std::vector<tiers::MetaValue>& values, StoreSurvey& survey) {
  for (const tiers::MetaValue& value : values) {
    std::istringstream number(value.name.substr(tiers::kNamespacePrefix.size()));
    std::istringstream text(value.value);
    std::uint16_t row_number = 0;
    StoredNamespace found;
    if (number >> row_number && text >> found.id >> found.block_bytes >> found.tenant) {
      survey.namespaces.emplace(row_number, std::move(found));
    }
  }
}

Status ReadManifest(const std::string& folder, StoreSurvey& survey) {
  KVFERRY_ASSIGN_OR_RETURN(
      const std::unique_ptr<tiers::RocksDatabase> database,
      tiers::RocksDatabase::Open({.folder = folder, .is_read_only = true, .file_system = nullptr}));
  tiers::StoreTally tally(survey.set->layout().segment_count * survey.set->drive_count());
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<tiers::SegmentRow> segments, database->ReadSegments());
  for (const tiers::SegmentRow& row : segments) {
    tally.Add(row);
  }
  std::uint64_t refused = 0;
  KVFERRY_RETURN_IF_ERROR(database->StartScan(nullptr));
  for (bool is_last = false; !is_last;) {
    KVFERRY_ASSIGN_OR_RETURN(const tiers::RocksDatabase::ScanPiece piece,
                             database->ScanNext(kRowsPerPiece));
    for (const tiers::PlacedRow& row : piece.rows) {
      tally.Add(row);
    }
    refused += piece.refused_count;
    is_last = piece.is_last;
  }
  KVFERRY_ASSIGN_OR_RETURN(survey.stats, database->ReadMeta("stats/"));
  KVFERRY_ASSIGN_OR_RETURN(const auto namespaces, database->ReadMeta(tiers::kNamespacePrefix));
  ReadNamespaces(namespaces, survey);
  KVFERRY_ASSIGN_OR_RETURN(const auto clean, database->ReadMeta(tiers::kCleanValueName));
  survey.is_closed = !clean.empty();
  if (refused > 0) {
    survey.problems.push_back(Count(refused, "row") +
                              " of the manifest cannot be understood: damaged, or of a later "
                              "version");
  }
  if (tally.dropped_segments() > 0) {
    survey.notes.push_back(Count(tally.dropped_segments(), "segment") +
                           " of the manifest are not of the store any more: it was made smaller");
  }
  if (tally.orphans() > 0) {
    survey.notes.push_back(Count(tally.orphans(), "row") +
                           " of blocks belong to no segment's present life: never hits, and "
                           "removed by kvferry fsck --repair");
  }
  survey.tally = std::move(tally);
  survey.manifest = folder;
  return Status::Ok();
}

// A segment without a footer may be open or not; what it holds only the manifest knew.
void ReadSegments(StoreSurvey& survey) {
  const tiers::StoreReader reader(*survey.set);
  tiers::StoreTally tally(reader.segment_count());
  std::uint64_t damaged = 0;
  for (std::uint32_t segment = 0; segment < reader.segment_count(); ++segment) {
    const tiers::SegmentHeaderRead header = reader.ReadHeader(segment);
    if (header.finding != tiers::PageFinding::kGood) {
      damaged += header.finding == tiers::PageFinding::kBlank ? 0 : 1;
      continue;
    }
    tiers::SegmentRow row;
    row.life = {segment, header.header.generation};
    row.stream = header.header.stream;
    row.opened_unix_ms = header.header.opened_unix_ms;
    row.used_pages = 1;
    const tiers::FooterRead footer = reader.ReadFooterOf(row.life);
    row.state = footer.finding == tiers::PageFinding::kGood ? tiers::SegmentState::kSealed
                                                            : tiers::SegmentState::kOpen;
    if (!footer.rows.empty()) {
      const tiers::BlockRow& last = footer.rows.back();
      row.used_pages = last.page + tiers::PayloadPages(last.stored_bytes);
    }
    tally.Add(row);
    for (const tiers::BlockRow& block : footer.rows) {
      tally.Add(tiers::PlacedRow{.life = row.life, .row = block});
    }
    damaged += footer.lost_pages > 0 || footer.finding == tiers::PageFinding::kDamaged ? 1 : 0;
  }
  if (damaged > 0) {
    survey.problems.push_back(Count(damaged, "segment") + " with a damaged header or footer");
  }
  if (tally.CountOf(tiers::SegmentState::kSealed) + tally.CountOf(tiers::SegmentState::kOpen) > 0) {
    survey.problems.emplace_back(
        "segments hold blocks, but there is no manifest: what follows is from headers and "
        "footers, without the blocks of segments that are not sealed");
  }
  survey.tally = std::move(tally);
}

void NoteDrives(StoreSurvey& survey) {
  for (const DriveFacts& drive : survey.drives) {
    if (!drive.is_good()) {
      survey.problems.emplace_back(drive.choice.status.message());
    } else if (const std::string copies = drive.damaged_copies(); !copies.empty()) {
      survey.problems.push_back(drive.path + ": damaged copies of the superblock: " + copies +
                                "; opening the store or kvferry fsck --repair writes them anew");
    }
  }
}

}  // namespace

Result<StoreSurvey> TakeSurvey(const StoreArguments& arguments) {
  StoreSurvey survey;
  KVFERRY_ASSIGN_OR_RETURN(survey.drives, LookAtDrives(arguments.drives));
  NoteDrives(survey);
  Result<std::unique_ptr<tiers::DriveSet>> set = tiers::DriveSet::OpenForReading(arguments.drives);
  if (!set.ok()) {
    if (survey.problems.empty()) {
      survey.problems.emplace_back(set.error().message());
    }
    return survey;
  }
  survey.set = std::move(*set);
  std::sort(survey.drives.begin(), survey.drives.end(), [](const auto& first, const auto& second) {
    return first.choice.superblock.drive_index < second.choice.superblock.drive_index;
  });
  for (const std::string& warning : survey.set->warnings()) {
    if (warning.find("damaged copies") == std::string::npos) {
      survey.notes.push_back(warning);
    }
  }
  const std::string folder = ManifestFolder(arguments, *survey.set);
  if (folder.empty()) {
    survey.notes.emplace_back(
        "the first drive is a device: name the manifest's folder with "
        "--manifest");
  } else if (const Status read = ReadManifest(folder, survey); !read.ok()) {
    if (read.native_code() == ENOENT) {
      survey.notes.push_back("no manifest at " + folder);
    } else {
      survey.problems.push_back("the manifest cannot be read: " + std::string(read.message()));
    }
  }
  if (survey.manifest.empty()) {
    ReadSegments(survey);
  }
  return survey;
}

}  // namespace kvferry::tool
