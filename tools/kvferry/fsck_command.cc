// `kvferry fsck`: whether a store's blocks are what was written, and the repair of its manifest.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "commands.h"
#include "exit_code.h"
#include "fsck_report.h"
#include "progress_bar.h"
#include "tiers/nvme/manifest_rebuild.h"
#include "tiers/nvme/open_io_ring.h"
#include "tiers/nvme/store_tally.h"

namespace kvferry::tool {
namespace {

using tiers::DriveSet;
using tiers::RocksDatabase;

constexpr std::size_t kRowsPerPiece = 10'000;
constexpr std::uint32_t kInFlightMax = 2 * tiers::PayloadCheck::kPieces;

// Under the lock, which is held until the end. A repair opens as an engine does, which mends the
// copies of superblocks.
Result<std::unique_ptr<DriveSet>> OpenDrives(const StoreArguments& arguments) {
  if (!arguments.repairs) {
    return DriveSet::OpenForReading(arguments.drives, tiers::DriveAccess::kReadAlone);
  }
  // First without a change: an engine's open would make a store where there is none.
  KVFERRY_RETURN_IF_ERROR(DriveSet::OpenForReading(arguments.drives).status());
  tiers::DriveSetOptions options;
  options.paths = arguments.drives;
  return DriveSet::Open(options);
}

// A new one, from what the segments tell.
Result<std::unique_ptr<RocksDatabase>> MakeManifest(const std::string& folder,
                                                    const DriveSet& drives,
                                                    FsckReport& report) {
  tiers::RocksDatabaseOptions options;
  options.folder = folder;
  KVFERRY_ASSIGN_OR_RETURN(std::unique_ptr<RocksDatabase> database, RocksDatabase::Open(options));
  const tiers::StoreReader reader(drives);
  KVFERRY_ASSIGN_OR_RETURN(
      report.rebuild,
      RebuildManifest(reader, [&](tiers::ManifestBatch& batch) { return database->Write(batch); }));
  return database;
}

Result<std::unique_ptr<RocksDatabase>> OpenManifest(const StoreArguments& arguments,
                                                    const DriveSet& drives,
                                                    FsckReport& report) {
  const std::string folder = ManifestFolder(arguments, drives);
  if (folder.empty()) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "the store's first drive is a device: name the manifest's folder with "
                         "--manifest");
  }
  tiers::RocksDatabaseOptions options;
  options.folder = folder;
  options.is_read_only = true;
  Result<std::unique_ptr<RocksDatabase>> database = RocksDatabase::Open(options);
  const bool is_missing = !database.ok() && database.error().native_code() == ENOENT;
  const bool is_lost = !database.ok() && database.status().code() == StatusCode::kDataLoss;
  if (is_missing && !arguments.repairs) {
    return Status::Error(StatusCode::kDataLoss,
                         "no manifest at " + folder +
                             ": without one nothing can be compared; kvferry inspect shows what "
                             "headers and footers tell, and --repair makes one from it");
  }
  if (!arguments.repairs || (!database.ok() && !is_lost)) {
    return database;
  }
  if (is_lost) {
    if (!is_missing) {
      KVFERRY_RETURN_IF_ERROR(tiers::SetManifestAside(folder));
    }
    return MakeManifest(folder, drives, report);
  }
  database->reset();
  options.is_read_only = false;
  return RocksDatabase::Open(options);
}

// Of all blocks, for the bar.
Result<std::uint64_t> CountBytes(RocksDatabase& database) {
  std::uint64_t bytes = 0;
  KVFERRY_RETURN_IF_ERROR(database.StartScan(nullptr));
  for (bool is_last = false; !is_last;) {
    KVFERRY_ASSIGN_OR_RETURN(const RocksDatabase::ScanPiece piece,
                             database.ScanNext(kRowsPerPiece));
    for (const tiers::PlacedRow& placed : piece.rows) {
      bytes += placed.row.stored_bytes;
    }
    is_last = piece.is_last;
  }
  return bytes;
}

Status Check(const StoreArguments& arguments, FsckReport& report) {
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<DriveSet> drives, OpenDrives(arguments));
  report.store = ToString(drives->store());
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<RocksDatabase> database,
                           OpenManifest(arguments, *drives, report));
  KVFERRY_ASSIGN_OR_RETURN(const tiers::OpenedIoRing opened,
                           tiers::OpenIoRing(drives->fds(), {.backend = tiers::IoBackend::kAuto,
                                                             .in_flight_max = kInFlightMax}));
  const tiers::StoreReader reader(*drives);
  const SteadyClock clock;
  tiers::PayloadCheck payloads({.reader = reader, .ring = *opened.ring, .clock = clock});
  tiers::StoreCheck check(
      {.reader = reader, .layout = drives->layout(), .database = *database, .payloads = payloads});
  const bool is_shown = !arguments.is_quiet && IsProgressTerminal();
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t total,
                           is_shown ? CountBytes(*database) : Result<std::uint64_t>(0));
  const Instant started = clock.Now();
  {
    ProgressBar bar({"checking " + report.store, "B", total, is_shown});
    KVFERRY_ASSIGN_OR_RETURN(report.findings, check.Run(bar.done()));
  }
  report.seconds = std::chrono::duration<double>(clock.Now() - started).count();
  if (arguments.repairs) {
    KVFERRY_ASSIGN_OR_RETURN(report.repair, check.Mend(report.findings));
  }
  return Status::Ok();
}

int RunFsck(const StoreArguments& arguments) {
  FsckReport report;
  const Result<std::vector<DriveFacts>> drives = LookAtDrives(arguments.drives);
  if (!drives.ok()) {
    return ReportStatus(drives.error());
  }
  for (const DriveFacts& drive : *drives) {
    if (const std::string copies = drive.damaged_copies(); !copies.empty()) {
      report.superblocks.push_back(drive.path + ": damaged copies of the superblock: " + copies);
    }
  }
  if (const Status checked = Check(arguments, report); !checked.ok()) {
    return ReportStatus(checked);
  }
  const int printed = PrintOutput(arguments.is_json ? ToJson(report) : ToText(report));
  return printed == kExitOk && report.has_damage() ? kExitFailure : printed;
}

}  // namespace

void AddFsckCommand(CLI::App& app, StoreArguments& arguments, int& exit_code) {
  CLI::App* fsck =
      app.add_subcommand("fsck", "Check every block of a store of the NVMe tier, and repair it");
  AddStoreOptions(*fsck, arguments);
  fsck->add_flag("--repair", arguments.repairs,
                 "Delete the rows of damaged blocks from the manifest, which makes them misses, "
                 "take segments with 3 or more of them out of use, write damaged copies of "
                 "superblocks anew, and make a manifest that is missing or cannot be read from the "
                 "segments. Never deletes the row of a good block; leaves blocks as they "
                 "are");
  fsck->add_flag("-q,--quiet", arguments.is_quiet, "No progress on stderr");
  fsck->footer(
      "Takes the store's lock, so no engine may have it open. Compares superblocks, headers and "
      "footers with\nthe manifest and reads every block to compare its checksum. Exit code 0: "
      "sound; 1: damage was found,\nrepaired or not, or it failed; 2: usage. docs/store.md "
      "explains the lines.");
  fsck->callback([&arguments, &exit_code] { exit_code = RunFsck(arguments); });
}

}  // namespace kvferry::tool
