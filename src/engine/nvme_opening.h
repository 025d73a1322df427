// OpenNvmeTier: everything of the NVMe tier that has to be opened, which waits for the drives.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kvferry/options.h"
#include "kvferry/status.h"

#include "tiers/nvme/drive_set.h"
#include "tiers/nvme/rocks_manifest.h"
#include "tiers/nvme/segment_store.h"
#include "tiers/nvme/store_watch.h"

namespace kvferry::engine {

// The drives and the manifest of one store, which belong together. The ring is missing: the mover
// thread makes it.
struct OpenedNvme {
  std::unique_ptr<tiers::DriveSet> drives;
  std::unique_ptr<tiers::RocksManifest> manifest;  // Goes first.
  tiers::SegmentStore::Options store;
  std::vector<std::uint64_t> file_systems;  // The number of that which each path is on.
  std::optional<tiers::StoreWatch> watch;   // Of the files.
  // The store or its manifest was made now: what was durable before need not be there.
  bool is_made = false;
};

// What an engine knows of the tier that it had open before; nothing at first.
struct NvmePast {
  tiers::StoreUuid store;                   // Must be there again,
  std::vector<std::uint64_t> file_systems;  // unless its paths are still on the same ones.
  bool is_manifest_damaged = false;
  // Of its files, when the tier went off. Moved ones must come back; in the place of those that are
  // gone, or cut to nothing, others may be made.
  tiers::StoreFate fate = tiers::StoreFate::kThere;
};

// The capacity in blocks of options.block_bytes, for tables.
std::uint64_t NvmeBlocksMax(const EngineOptions& options);

// A manifest that is missing is made from the segments. One that cannot be read, is older than the
// segments, or is said to be damaged is put aside first, as "<folder>.damaged".
//
// Where a store was open before, no folder is made that is missing, unless it was deleted.
//
// `bell` is borrowed until the manifest is gone. The errors of DriveSet and RocksManifest;
// kInvalidArgument where the manifest is of another store; kUnavailable while what was there before
// is elsewhere.
Result<OpenedNvme> OpenNvmeTier(const EngineOptions& options,
                                tiers::ManifestBell& bell,
                                const NvmePast& past);

}  // namespace kvferry::engine
