// The folder's creation, its entry in the parent made durable, and the checks.
#include "tiers/nvme/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "tiers/nvme/io_errors.h"

namespace kvferry::tiers {
namespace {

constexpr mode_t kOwnerOnly = 0700;
constexpr mode_t kOthersBits = 077;

Status SyncFolder(const std::string& path) {
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open() || ::fsync(folder.fd()) != 0) {
    return IoError("syncing the folder " + path, errno);
  }
  return Status::Ok();
}

Status CheckFolder(const std::string& path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) {
    return IoError("looking at " + path, errno);
  }
  if (!S_ISDIR(found.st_mode)) {
    return Status::Error(StatusCode::kInvalidArgument, path + " is not a folder");
  }
  if (found.st_uid != ::geteuid() || (found.st_mode & kOthersBits) != 0) {
    return Status::Error(StatusCode::kInvalidArgument,
                         path + " must belong to this user and be closed to others (chmod 0700)");
  }
  return Status::Ok();
}

}  // namespace

Status EnsurePrivateFolder(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') {
    name.pop_back();  // With a slash behind it a link would be followed.
  }
  if (::mkdir(name.c_str(), kOwnerOnly) == 0) {
    const std::string parent = std::filesystem::path(name).parent_path().string();
    return SyncFolder(parent.empty() ? "." : parent);
  }
  if (errno != EEXIST) {
    return IoError("making the folder " + name, errno);
  }
  return CheckFolder(name);
}

}  // namespace kvferry::tiers
