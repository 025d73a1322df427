// What `inspect` and `fsck` share: the arguments, the drives' superblocks, and the manifest.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "tiers/nvme/drive_set.h"
#include "tiers/nvme/rocks_database.h"

#include <CLI/CLI.hpp>

namespace kvferry::tool {

struct StoreArguments {
  std::vector<std::string> drives;
  std::string manifest;  // Empty: in the folder of the first drive.
  bool is_json = false;
  bool is_quiet = false;
  bool lists_segments = false;  // Of `inspect`.
  bool repairs = false;         // Of `fsck`.
};

// DIR..., --manifest and --json.
void AddStoreOptions(CLI::App& command, StoreArguments& arguments);

// A drive by itself, whatever state it is in.
struct DriveFacts {
  std::string path;
  bool is_device = false;
  std::uint64_t size_bytes = 0;
  tiers::SuperblockChoice choice;

  bool is_good() const { return choice.finding == tiers::PageFinding::kGood; }
  // Of a good one: the copies that are to be written anew, "1, 3"; empty if none is.
  std::string damaged_copies() const;
};
// Without a lock or a change. An error for what is no drive at all.
Result<std::vector<DriveFacts>> LookAtDrives(const std::vector<std::string>& paths);

// Where the manifest of these drives should be; empty if that cannot be told.
std::string ManifestFolder(const StoreArguments& arguments, const tiers::DriveSet& drives);

std::string_view NameOf(tiers::PageFinding finding);
std::string_view NameOf(tiers::SegmentState state);
std::string_view NameOf(tiers::SegmentStream stream);

// "2 drives", "1 drive".
std::string Count(std::uint64_t count, std::string_view what);

}  // namespace kvferry::tool
