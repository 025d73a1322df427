// Drives, manifest, and whether they are of one store.
#include "engine/nvme_opening.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "tiers/nvme/newest_generation.h"

namespace kvferry::engine {
namespace {

constexpr std::string_view kStoreName = "store";

std::string ManifestFolder(const NvmeTierOptions& options, const tiers::DriveSet& drives) {
  return options.manifest_path.empty() ? drives.path(0) + "/manifest" : options.manifest_path;
}

// Nothing else is under way, so the manifest has no batch to deliver but this one.
class NoSink final : public tiers::ManifestSink {
  void OnManifestDone(tiers::ManifestBatch& /*batch*/) noexcept override {}
};

// Waits until the batch is durable.
Status Carry(tiers::Manifest& manifest, tiers::ManifestBatch& batch) {
  NoSink sink;
  batch.sink = &sink;
  batch.is_synced = true;
  KVFERRY_RETURN_IF_ERROR(manifest.Submit(batch));
  const Status read = manifest.ReadMeta(kStoreName).status();  // Waits for what was submitted.
  manifest.Reap(Clock::now());
  KVFERRY_CHECK(manifest.in_flight() == 0);
  return batch.status.ok() ? read : batch.status;
}

Result<std::unique_ptr<tiers::RocksManifest>> OpenManifest(const std::string& folder,
                                                           const EngineOptions& options,
                                                           tiers::ManifestBell& bell) {
  tiers::RocksManifestOptions manifest;
  manifest.database.folder = folder;
  manifest.database.write_buffer_bytes = tiers::WriteBufferBytesFor(options.nvme.capacity_bytes);
  manifest.bell = &bell;
  return tiers::RocksManifest::Open(manifest);
}

// Makes the manifest the drives', or says that it is another's.
Status Bind(OpenedNvme& opened, const std::string& folder) {
  KVFERRY_ASSIGN_OR_RETURN(const auto values, opened.manifest->ReadMeta(kStoreName));
  const std::string own = ToString(opened.drives->store());
  const auto bound = std::find_if(values.begin(), values.end(), [](const tiers::MetaValue& value) {
    return value.name == kStoreName;
  });
  if (bound != values.end()) {
    return bound->value == own
               ? Status::Ok()
               : Status::Error(StatusCode::kInvalidArgument,
                               "the manifest in '" + folder + "' is of store " + bound->value +
                                   ", but the drives are of store " + own +
                                   "; name the folder of theirs (nvme.manifest_path), or remove "
                                   "this one, and the tier starts empty");
  }
  if (!opened.drives->is_new()) {
    LogWarning("NVMe tier: the manifest in '" + folder +
               "' is new, although the drives are not: what they hold is lost, and the tier starts "
               "empty");
    opened.store.first_generation = tiers::NewestGeneration(*opened.drives) + 1;
  }
  tiers::ManifestBatch batch;
  batch.meta_puts.push_back({std::string(kStoreName), own});
  return Carry(*opened.manifest, batch);
}

}  // namespace

std::uint64_t NvmeBlocksMax(const EngineOptions& options) {
  return options.nvme.paths.empty()
             ? 0
             : tiers::DataBytesOf(options.nvme.capacity_bytes) / options.block_bytes + 1;
}

Result<OpenedNvme> OpenNvmeTier(const EngineOptions& options, tiers::ManifestBell& bell) {
  const NvmeTierOptions& nvme = options.nvme;
  OpenedNvme opened;
  tiers::DriveSetOptions drives;
  drives.paths = nvme.paths;
  drives.capacity_bytes = tiers::DataBytesOf(nvme.capacity_bytes);
  drives.segment_bytes = nvme.segment_bytes;
  drives.block_bytes_max = options.block_bytes;
  drives.may_format = nvme.may_format;
  KVFERRY_ASSIGN_OR_RETURN(opened.drives, tiers::DriveSet::Open(drives));
  for (const std::string& warning : opened.drives->warnings()) {
    LogWarning("NVMe tier: " + warning);
  }
  const tiers::StoreLayout layout = opened.drives->layout();
  const std::uint64_t pages = std::uint64_t{layout.segment_count} * opened.drives->drive_count() *
                              layout.pages_per_segment();
  if (pages > 0xffffffff) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "an NVMe tier has at most 16 TiB; lower nvme.capacity_bytes");
  }
  opened.store.store = opened.drives->store();
  opened.store.layout = layout;
  opened.store.drive_count = opened.drives->drive_count();
  opened.store.owners_per_segment_max = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(2 * layout.segment_bytes / options.block_bytes, 4,
                                tiers::PayloadsMax(layout.pages_per_segment())));
  opened.store.commit_bytes = nvme.commit_bytes;
  opened.store.commit_time = std::chrono::milliseconds(nvme.commit_ms);
  const Duration now = Clock::now().time_since_epoch();
  opened.store.unix_ms_minus_now =
      UnixMilliseconds() - std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::string folder = ManifestFolder(nvme, *opened.drives);
  if (opened.drives->is_new() && nvme.manifest_path.empty()) {
    // It lies among the drives' own files, which are gone: whatever it tells of is gone with them.
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  KVFERRY_ASSIGN_OR_RETURN(opened.manifest, OpenManifest(folder, options, bell));
  KVFERRY_RETURN_IF_ERROR(Bind(opened, folder));
  return opened;
}

}  // namespace kvferry::engine
