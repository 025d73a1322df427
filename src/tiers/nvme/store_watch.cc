// Names, sizes and counts of names, of what is open.
#include "tiers/nvme/store_watch.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "tiers/nvme/drive_file.h"

namespace kvferry::tiers {
namespace {

// A process that changes its folder later is no reason for anything.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

bool SaysThereIsNone(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP;
}

bool AreSame(const struct stat& first, const struct stat& second) {
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// Twice: a log may be replaced by the next one while the folder is being read.
bool HasLog(const std::string& folder) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::error_code error;
    std::filesystem::directory_iterator entry(folder, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      if (entry->path().extension() == ".log") {
        return true;
      }
    }
    if (error) {
      return true;  // That says nothing.
    }
  }
  return false;
}

}  // namespace

Result<StoreWatch> StoreWatch::Begin(const DriveSet& drives, const std::string& manifest_folder) {
  StoreWatch watch;
  const auto add = [&watch](int fd, const std::string& path, std::uint64_t size_bytes) {
    if (fd < 0) {
      return PathError({path, "cannot be watched", "check the drive and the limit of open files"},
                       errno);
    }
    watch.places_.push_back(
        {.open = FileDescriptor(fd), .path = Absolute(path), .size_bytes = size_bytes});
    return Status::Ok();
  };
  for (std::uint32_t i = 0; i < drives.drive_count(); ++i) {
    const Drive& drive = drives.drive(i);
    if (drive.is_device()) {
      continue;
    }
    // Opened anew, since a copy of the descriptor would have the folder's lock.
    KVFERRY_RETURN_IF_ERROR(
        add(::openat(drive.folder_fd(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC), drive.path(), 0));
    KVFERRY_RETURN_IF_ERROR(add(::fcntl(drive.fd(), F_DUPFD_CLOEXEC, 0),
                                drive.path() + "/" + std::string(kBlocksFileName),
                                drives.layout().end_bytes()));
  }
  watch.manifest_folder_ = Absolute(manifest_folder);
  KVFERRY_RETURN_IF_ERROR(
      add(::open(manifest_folder.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC), manifest_folder, 0));
  return watch;
}

StoreWatch::Finding StoreWatch::Look() const {
  Finding worst;
  for (const Place& place : places_) {
    Finding found = LookAt(place);
    if (found.fate > worst.fate) {
      worst = std::move(found);
    }
  }
  if (worst.fate == StoreFate::kThere) {
    worst = LookIntoManifest();
  }
  return worst;
}

StoreWatch::Finding StoreWatch::LookAt(const Place& place) {
  struct stat open = {};
  if (::fstat(place.open.fd(), &open) != 0) {
    return {};
  }
  struct stat named = {};
  const int error_number = ::lstat(place.path.c_str(), &named) == 0 ? 0 : errno;
  const bool is_named = error_number == 0 && AreSame(open, named);
  if (open.st_nlink == 0) {
    const bool is_replaced = error_number == 0 && !is_named;
    return {StoreFate::kGone,
            place.path + (is_replaced ? " was replaced while the tier had it open"
                                      : " was deleted while the tier had it open")};
  }
  const auto size = static_cast<std::uint64_t>(open.st_size);
  if (S_ISREG(open.st_mode) && size < place.size_bytes) {
    return {StoreFate::kCut, place.path + " was cut short from " + FormatBytes(place.size_bytes) +
                                 " to " + FormatBytes(size) + " while the tier had it open"};
  }
  if (SaysThereIsNone(error_number)) {
    return {StoreFate::kMoved,
            place.path +
                " is not there any more, though it was not deleted: it, or what it lies "
                "in, was moved or unmounted; put it back"};
  }
  if (error_number == 0 && !is_named) {
    return {StoreFate::kMoved,
            place.path + " is something else by now, and what it was is elsewhere; put it back"};
  }
  return {};
}

StoreWatch::Finding StoreWatch::LookIntoManifest() const {
  struct stat current = {};
  const std::string path = manifest_folder_ + "/CURRENT";
  if (::lstat(path.c_str(), &current) != 0 && SaysThereIsNone(errno)) {
    return {StoreFate::kGone, path + " was deleted while the tier had the manifest open"};
  }
  if (!HasLog(manifest_folder_)) {
    return {StoreFate::kGone,
            manifest_folder_ + " has lost its log while the tier had the manifest open"};
  }
  return {};
}

}  // namespace kvferry::tiers
