// StoreSurvey: everything that `inspect` tells, gathered, and its two forms.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "store_access.h"
#include "tiers/nvme/drive_set.h"
#include "tiers/nvme/manifest.h"
#include "tiers/nvme/store_tally.h"

namespace kvferry::tool {

// What the manifest tells of a namespace.
struct StoredNamespace {
  std::string id;
  std::uint32_t block_bytes = 0;
  std::uint32_t tenant = 0;  // NamespaceOptions::tenant.
};

struct StoreSurvey {
  std::vector<DriveFacts> drives;
  std::unique_ptr<tiers::DriveSet> set;  // Null: the drives make no store.
  std::string manifest;                  // Its folder; empty if it was not read.
  bool is_closed = false;                // By whoever had it open last; of a manifest.
  std::optional<tiers::StoreTally> tally;
  std::vector<tiers::MetaValue> stats;
  std::map<std::uint16_t, StoredNamespace> namespaces;  // By the number that rows have for them.
  std::vector<std::string> notes;                       // Things that are as they may be.
  std::vector<std::string> problems;                    // Things that are not.
};

// Changes nothing, takes no lock. An error only for what is no drive at all.
Result<StoreSurvey> TakeSurvey(const StoreArguments& arguments);

std::string ToText(const StoreSurvey& survey, std::int64_t now_unix_ms, bool lists_segments);
std::string ToJson(const StoreSurvey& survey, bool lists_segments);

}  // namespace kvferry::tool
