// Options of the commands that open a store, and a first look at its drives.
#include "store_access.h"

#include <utility>

#include "tiers/nvme/drive.h"

namespace kvferry::tool {

void AddStoreOptions(CLI::App& command, StoreArguments& arguments) {
  command
      .add_option("drives", arguments.drives,
                  "The folders or raw devices of one store, all of them, in any order")
      ->type_name("DIR")
      ->required();
  command
      .add_option("--manifest", arguments.manifest,
                  "The manifest's folder; by default `manifest` in the folder of the store's first "
                  "drive, so a store whose first drive is a raw device needs it")
      ->type_name("DIR");
  command.add_flag("--json", arguments.is_json, "Print one JSON object");
}

std::string DriveFacts::damaged_copies() const {
  std::string copies;
  for (std::size_t i = 0; i < choice.is_current.size(); ++i) {
    if (is_good() && !choice.is_current.at(i)) {
      copies.append(copies.empty() ? "" : ", ").append(std::to_string(i));
    }
  }
  return copies;
}

Result<std::vector<DriveFacts>> LookAtDrives(const std::vector<std::string>& paths) {
  std::vector<DriveFacts> facts;
  facts.reserve(paths.size());
  for (const std::string& path : paths) {
    KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<tiers::Drive> drive,
                             tiers::Drive::Open(path, tiers::DriveAccess::kRead));
    facts.push_back({.path = drive->path(),
                     .is_device = drive->is_device(),
                     .size_bytes = drive->size_bytes(),
                     .choice = drive->ReadSuperblock()});
  }
  return facts;
}

std::string ManifestFolder(const StoreArguments& arguments, const tiers::DriveSet& drives) {
  if (!arguments.manifest.empty()) {
    return arguments.manifest;
  }
  const Result<tiers::PathKind> kind = tiers::LookAtDrivePath(drives.path(0));
  return kind.ok() && *kind == tiers::PathKind::kFolder ? drives.path(0) + "/manifest" : "";
}

std::string_view NameOf(tiers::PageFinding finding) {
  switch (finding) {
    case tiers::PageFinding::kGood:
      return "good";
    case tiers::PageFinding::kBlank:
      return "blank";
    case tiers::PageFinding::kForeign:
      return "foreign";
    case tiers::PageFinding::kStale:
      return "stale";
    case tiers::PageFinding::kNewer:
      return "newer";
    case tiers::PageFinding::kDamaged:
      return "damaged";
  }
  return "unknown";
}

std::string_view NameOf(tiers::SegmentState state) {
  switch (state) {
    case tiers::SegmentState::kClean:
      return "clean";
    case tiers::SegmentState::kOpen:
      return "open";
    case tiers::SegmentState::kSealed:
      return "sealed";
    case tiers::SegmentState::kQuarantined:
      return "quarantined";
  }
  return "unknown";
}

std::string_view NameOf(tiers::SegmentStream stream) {
  return stream == tiers::SegmentStream::kProtected ? "protected" : "normal";
}

std::string Count(std::uint64_t count, std::string_view what) {
  std::string text = std::to_string(count) + " " + std::string(what);
  return count == 1 ? text : text + "s";
}

}  // namespace kvferry::tool
