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
#include "base/file.h"
#include "base/log.h"
#include "tiers/nvme/manifest_rebuild.h"
#include "tiers/nvme/store_reader.h"

namespace kvferry::engine {
namespace {

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
  const Status read =
      manifest.ReadMeta(tiers::kStoreValueName).status();  // Waits for what was submitted.
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

// Whether the manifest is of these drives: no without anything of any store.
Result<bool> IsBound(const OpenedNvme& opened, const std::string& folder) {
  KVFERRY_ASSIGN_OR_RETURN(const auto values, opened.manifest->ReadMeta(tiers::kStoreValueName));
  const auto bound = std::find_if(values.begin(), values.end(), [](const tiers::MetaValue& value) {
    return value.name == tiers::kStoreValueName;
  });
  if (bound == values.end()) {
    return false;
  }
  const std::string own = ToString(opened.drives->store());
  if (bound->value != own) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "the manifest in '" + folder + "' is of store " + bound->value +
                             ", but the drives are of store " + own +
                             "; name the folder of theirs (nvme.manifest_path), or remove "
                             "this one, and another is made from the segments");
  }
  return true;
}

// Lives are recorded before their segments are headed.
Status CheckIsNotOlder(const OpenedNvme& opened, const tiers::StoreReader& reader) {
  KVFERRY_ASSIGN_OR_RETURN(const auto rows, opened.manifest->ReadSegments());
  std::uint64_t newest = 0;
  for (const tiers::SegmentRow& row : rows) {
    newest = std::max(newest, row.life.generation);
  }
  const std::uint64_t headed = tiers::NewestGeneration(reader);
  return headed <= newest
             ? Status::Ok()
             : Status::Error(StatusCode::kDataLoss,
                             "it is older than the segments: they are of generations up to " +
                                 std::to_string(headed) + ", it knows " + std::to_string(newest));
}

Status Rebuild(OpenedNvme& opened, const tiers::StoreReader& reader) {
  const auto write = [&opened](tiers::ManifestBatch& batch) {
    return Carry(*opened.manifest, batch);
  };
  KVFERRY_ASSIGN_OR_RETURN(const tiers::ManifestRebuild rebuild, RebuildManifest(reader, write));
  opened.store.first_generation = rebuild.newest_generation + 1;
  if (rebuild.newest_generation > 0) {
    LogWarning("NVMe tier: the manifest was made anew from " + std::to_string(rebuild.segments) +
               " segments with " + std::to_string(rebuild.blocks) + " blocks; " +
               std::to_string(rebuild.left_out) +
               " were left out, and those of segments that were not full are lost");
  }
  return Status::Ok();
}

// Opens the manifest, and makes one from the segments where there is none. kDataLoss: what is there
// cannot be used.
Status OpenSound(OpenedNvme& opened,
                 const std::string& folder,
                 const EngineOptions& options,
                 tiers::ManifestBell& bell) {
  KVFERRY_ASSIGN_OR_RETURN(opened.manifest, OpenManifest(folder, options, bell));
  KVFERRY_ASSIGN_OR_RETURN(const bool is_bound, IsBound(opened, folder));
  const tiers::StoreReader reader(*opened.drives);
  if (is_bound) {
    return CheckIsNotOlder(opened, reader);
  }
  KVFERRY_RETURN_IF_ERROR(Rebuild(opened, reader));
  opened.is_made = true;
  // The restart scan sees the rows as they were when the manifest was opened.
  opened.manifest.reset();
  KVFERRY_ASSIGN_OR_RETURN(opened.manifest, OpenManifest(folder, options, bell));
  return Status::Ok();
}

std::string ParentOf(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') {
    name.pop_back();
  }
  const std::string parent = std::filesystem::path(name).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::vector<std::uint64_t> FileSystemsOf(const std::vector<std::string>& paths) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(paths.size());
  for (const std::string& path : paths) {
    numbers.push_back(FileSystemOf(path));
  }
  return numbers;
}

// Whether other drives than those of before may be opened, or made. A file that was deleted or cut
// may be made anew, and so may its folder; a folder from which a file system was unmounted is none
// to make one in, and what was moved may come back.
bool MayBeAnother(const std::vector<std::string>& paths, const NvmePast& past) {
  if (past.store == tiers::StoreUuid{}) {
    return true;
  }
  std::vector<std::uint64_t> file_systems = FileSystemsOf(paths);
  for (std::size_t i = 0; i < paths.size() && past.fate == tiers::StoreFate::kGone; ++i) {
    file_systems[i] = file_systems[i] == 0 ? FileSystemOf(ParentOf(paths[i])) : file_systems[i];
  }
  return past.fate != tiers::StoreFate::kMoved && file_systems == past.file_systems;
}

// Before anything is made in its place.
Status CheckIsThere(const std::string& path, const NvmePast& past) {
  if (FileSystemOf(path) != 0) {
    return Status::Ok();
  }
  return Status::Error(
      StatusCode::kUnavailable,
      path + ": is not there, but was open before, of store " + ToString(past.store) +
          "; put it back, or " +
          (past.fate == tiers::StoreFate::kMoved ? "open the engine anew, which makes another one"
                                                 : "make an empty folder for another one"));
}

}  // namespace

std::uint64_t NvmeBlocksMax(const EngineOptions& options) {
  return options.nvme.paths.empty()
             ? 0
             : tiers::DataBytesOf(options.nvme.capacity_bytes) / options.block_bytes + 1;
}

Result<OpenedNvme> OpenNvmeTier(const EngineOptions& options,
                                tiers::ManifestBell& bell,
                                const NvmePast& past) {
  const NvmeTierOptions& nvme = options.nvme;
  OpenedNvme opened;
  tiers::DriveSetOptions drives;
  drives.paths = nvme.paths;
  drives.capacity_bytes = tiers::DataBytesOf(nvme.capacity_bytes);
  drives.segment_bytes = nvme.segment_bytes;
  drives.block_bytes_max = options.block_bytes;
  drives.may_format = nvme.may_format;
  drives.was_cut = past.fate == tiers::StoreFate::kCut;
  if (!MayBeAnother(nvme.paths, past)) {
    for (const std::string& path : nvme.paths) {
      KVFERRY_RETURN_IF_ERROR(CheckIsThere(path, past));
    }
    drives.must_be = past.store;
  }
  KVFERRY_ASSIGN_OR_RETURN(opened.drives, tiers::DriveSet::Open(drives));
  opened.file_systems = FileSystemsOf(nvme.paths);
  opened.is_made = opened.drives->is_new();
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
  if (past.fate == tiers::StoreFate::kMoved) {
    KVFERRY_RETURN_IF_ERROR(CheckIsThere(folder, past));
  }
  Status status = past.is_manifest_damaged
                      ? Status::Error(StatusCode::kDataLoss, "its rows cannot be read")
                      : OpenSound(opened, folder, options, bell);
  if (status.code() == StatusCode::kDataLoss) {
    opened.manifest.reset();
    LogWarning(
        "NVMe tier: the manifest in '" + folder +
        "' is put aside, and another is made from the segments: " + std::string(status.message()));
    KVFERRY_RETURN_IF_ERROR(tiers::SetManifestAside(folder));
    status = OpenSound(opened, folder, options, bell);
  }
  KVFERRY_RETURN_IF_ERROR(std::move(status));
  KVFERRY_ASSIGN_OR_RETURN(opened.watch, tiers::StoreWatch::Begin(*opened.drives, folder));
  return opened;
}

}  // namespace kvferry::engine
