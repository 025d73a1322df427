// The folder's creation, its entry in the parent made durable, and the checks.
#include "tiers/nvme/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "tiers/nvme/drive_file.h"
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
  if (S_ISLNK(found.st_mode)) {
    return Status::Error(
        StatusCode::kInvalidArgument,
        path + " is a symbolic link, which a store is not reached through, since it may lead " +
            "elsewhere tomorrow; name the folder itself, or bind-mount it (mount --bind) there");
  }
  if (!S_ISDIR(found.st_mode)) {
    return Status::Error(StatusCode::kInvalidArgument,
                         path + " is not a folder; name one, or a path that is still free");
  }
  if (found.st_uid != ::geteuid() || (found.st_mode & kOthersBits) != 0) {
    return Status::Error(StatusCode::kInvalidArgument,
                         path + " must belong to this user and be closed to others (chmod 0700)");
  }
  return Status::Ok();
}

// What to do where the folder could not be made in `parent`.
std::string Remedy(const std::string& parent, int error_number) {
  struct stat found = {};
  switch (error_number) {
    case ENOENT:
      return ::stat(parent.c_str(), &found) == 0
                 ? parent +
                       " is there, but its file system takes no new folders (as /proc and "
                       "/sys); name a folder on a drive"
                 : "make its parent folder, " + parent + ", first";
    case EACCES:
    case EPERM:
      return "let this user read and write " + parent + ", or name another folder";
    case EROFS:
      return "mount its volume writable, or name another folder";
    case ENOSPC:
    case EDQUOT:
      return "free some room on its volume, or raise the quota there";
    default:
      return "check the path, and that " + parent + " is a folder that takes others";
  }
}

}  // namespace

Status EnsurePrivateFolder(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') {
    name.pop_back();  // With a slash behind it a link would be followed.
  }
  std::string parent = std::filesystem::path(name).parent_path().string();
  parent = parent.empty() ? "." : parent;
  if (::mkdir(name.c_str(), kOwnerOnly) == 0) {
    return SyncFolder(parent);
  }
  if (const int error = errno; error != EEXIST) {
    return PathError({name, "cannot be made", Remedy(parent, error)}, error);
  }
  return CheckFolder(name);
}

}  // namespace kvferry::tiers
