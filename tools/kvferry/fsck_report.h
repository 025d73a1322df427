// FsckReport: what `fsck` has found and done, and its two forms.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store_access.h"
#include "tiers/nvme/manifest_rebuild.h"
#include "tiers/nvme/store_check.h"

namespace kvferry::tool {

struct FsckReport {
  std::string store;
  std::vector<std::string> superblocks;           // A line for each drive with damaged copies.
  std::optional<tiers::ManifestRebuild> rebuild;  // Of a manifest that was lost.
  tiers::StoreFindings findings;
  std::optional<tiers::StoreCheck::Repair> repair;  // Without --repair: nothing.
  double seconds = 0;                               // That the check of the blocks took.

  bool has_damage() const {
    return !superblocks.empty() || rebuild.has_value() || findings.damage_total() > 0;
  }
};

std::string ToText(const FsckReport& report);
std::string ToJson(const FsckReport& report);

}  // namespace kvferry::tool
