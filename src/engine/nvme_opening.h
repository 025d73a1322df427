// OpenNvmeTier: everything of the NVMe tier that has to be opened, which waits for the drives.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kvferry/options.h"
#include "kvferry/status.h"

#include "tiers/nvme/drive_set.h"
#include "tiers/nvme/rocks_manifest.h"
#include "tiers/nvme/segment_store.h"

namespace kvferry::engine {

// The drives and the manifest of one store, which belong together. The ring is missing: the mover
// thread makes it.
struct OpenedNvme {
  std::unique_ptr<tiers::DriveSet> drives;
  std::unique_ptr<tiers::RocksManifest> manifest;  // Goes first.
  tiers::SegmentStore::Options store;
  std::vector<std::uint64_t> file_systems;  // The number of that which each path is on.
};

// What an engine knows of the tier that it had open before; nothing at first.
struct NvmePast {
  tiers::StoreUuid store;                   // Must be there again,
  std::vector<std::uint64_t> file_systems;  // unless its paths are still on the same ones.
  bool is_manifest_damaged = false;
};

// The capacity in blocks of options.block_bytes, for tables.
std::uint64_t NvmeBlocksMax(const EngineOptions& options);

// A manifest that is missing is made from the segments. One that cannot be read, is older than the
// segments, or is said to be damaged is put aside first, as "<folder>.damaged".
//
// `bell` is borrowed until the manifest is gone. The errors of DriveSet and RocksManifest;
// kInvalidArgument where the manifest is of another store.
Result<OpenedNvme> OpenNvmeTier(const EngineOptions& options,
                                tiers::ManifestBell& bell,
                                const NvmePast& past);

}  // namespace kvferry::engine
