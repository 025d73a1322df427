// StoreWatch: whether the files of an open store are still where a restart would look for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "base/file.h"
#include "tiers/nvme/drive_set.h"

namespace kvferry::tiers {

// What became of a store's files under those who have them open, for whom everything works on.
enum class StoreFate : std::uint8_t {
  kThere,
  kMoved,  // They are elsewhere, or something else is mounted over them: they can come back.
  kCut,    // Shorter than they were, still under their names: what was cut does not come back.
  kGone,   // Deleted or replaced: nothing of what was in them comes back.
};

// Keeps what it watches in use, so that a file system can be unmounted only once it is gone; but no
// lock. Raw devices are not watched: their reads and writes tell.
//
// Immutable, hence thread-safe. Looking costs some microseconds, and waits where the file system
// does.
class StoreWatch {
 public:
  struct Finding {
    StoreFate fate = StoreFate::kThere;
    std::string what;  // The file and what happened to it, in a sentence; empty for kThere.
  };

  // `drives` and the manifest are open. kIoError.
  static Result<StoreWatch> Begin(const DriveSet& drives, const std::string& manifest_folder);
  StoreWatch(StoreWatch&&) noexcept = default;
  StoreWatch& operator=(StoreWatch&&) noexcept = default;
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;
  ~StoreWatch() = default;

  // The worst that there is. Errors of the file system are none: whoever reads and writes has them.
  Finding Look() const;

 private:
  // Something open, and the name under which it has to be.
  struct Place {
    FileDescriptor open;
    std::string path;
    std::uint64_t size_bytes = 0;  // At least; 0 for a folder.
  };

  StoreWatch() = default;
  static Finding LookAt(const Place& place);
  Finding LookIntoManifest() const;

  std::vector<Place> places_;
  std::string manifest_folder_;
};

}  // namespace kvferry::tiers
