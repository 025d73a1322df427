// Opening by name without following links, the owner's checks, and who holds a lock.
#include "tiers/nvme/drive_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include "tiers/nvme/private_folder.h"

namespace kvferry::tiers {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kOthersBits = 077;

std::string Reason(int error_number) {
  return std::error_code(error_number, std::generic_category()).message();
}

Status Refused(const PathProblem& problem) {
  return Status::Error(StatusCode::kInvalidArgument,
                       problem.path + ": " + problem.what + "; " + problem.remedy);
}

// The process that the system's table names for a lock on this file. Nothing where it is in another
// pid namespace or the table cannot be read.
std::optional<long> LockHolder(int fd) {
  struct stat file = {};
  if (::fstat(fd, &file) != 0) {
    return std::nullopt;
  }
  // "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF"
  std::ostringstream place;
  place.fill('0');
  place << std::hex;
  place.width(2);
  place << major(file.st_dev) << ':';
  place.width(2);
  place << minor(file.st_dev) << ':' << std::dec << file.st_ino;
  std::ifstream table("/proc/locks");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number;
    std::string kind;
    std::string mode;
    std::string direction;
    long pid = 0;
    std::string where;
    fields >> number >> kind >> mode >> direction >> pid >> where;
    if (fields && kind == "FLOCK" && where == place.str() && pid > 0) {
      return pid;
    }
  }
  return std::nullopt;
}

Status LockFolder(int fd, const std::string& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    return Status::Ok();
  }
  if (errno != EWOULDBLOCK) {
    return PathError({path, "cannot be locked", "use a local file system"}, errno);
  }
  const std::optional<long> holder = LockHolder(fd);
  if (holder && *holder == ::getpid()) {
    return Status::Error(StatusCode::kUnavailable,
                         path +
                             ": this process has the store open already; name each drive once, and "
                             "close the store before opening it again");
  }
  const std::string who = holder ? "process " + std::to_string(*holder) : "another process";
  return Status::Error(
      StatusCode::kUnavailable,
      path + ": " + who + " has the store open; end it, or give this one a folder of its own");
}

Status CheckFolderDescriptor(int fd, const std::string& path) {
  struct stat found = {};
  if (::fstat(fd, &found) != 0) {
    return PathError({path, "cannot be looked at", "check the drive"}, errno);
  }
  if (found.st_uid != ::geteuid() || (found.st_mode & kOthersBits) != 0) {
    return Refused({path, "is not this user's alone", "chown it to this user and chmod 0700"});
  }
  return Status::Ok();
}

Status CheckFile(int fd, const std::string& path, DriveAccess access) {
  struct stat found = {};
  if (::fstat(fd, &found) != 0) {
    return PathError({path, "cannot be looked at", "check the drive"}, errno);
  }
  if (!S_ISREG(found.st_mode)) {
    return Refused({path, "is no regular file", "remove it, or give another folder"});
  }
  if (access != DriveAccess::kOwn) {
    return Status::Ok();
  }
  if (found.st_uid != ::geteuid()) {
    return Refused({path, "belongs to user " + std::to_string(found.st_uid) + ", not to this one",
                    "run as that user, or chown it"});
  }
  if ((found.st_mode & kOthersBits) != 0) {
    return Refused({path, "is open to other users", "chmod 0600, if its content can be trusted"});
  }
  if (found.st_nlink != 1) {
    return Refused({path, "has " + std::to_string(found.st_nlink) + " names",
                    "remove the other ones, through which it could be changed"});
  }
  return Status::Ok();
}

struct FileSystemKind {
  std::uint64_t magic;
  std::string_view warning;
};

constexpr std::string_view kNetwork =
    "is on a network file system: the lock may not keep other hosts away, and latency is the "
    "network's";
constexpr std::string_view kCopyOnWrite =
    "is on a copy-on-write file system: every overwrite moves data, and preallocated room is not "
    "kept; use ext4 or XFS";
constexpr std::string_view kMemory =
    "is on a file system in memory: the store is gone after a restart and takes the memory that "
    "the host tier could have";

// From linux/magic.h and the file systems' own headers.
constexpr std::array<FileSystemKind, 17> kFileSystems = {{
    {0x794c7630, "is on an overlay, as in a container's own file system: mount a volume there"},
    {0x6969, kNetwork},      // NFS.
    {0xff534d42, kNetwork},  // CIFS.
    {0xfe534d42, kNetwork},  // SMB 2.
    {0x517b, kNetwork},      // SMB.
    {0x00c36400, kNetwork},  // Ceph.
    {0x5346414f, kNetwork},  // AFS.
    {0x01021997, kNetwork},  // 9P.
    {0x0bd00bd0, kNetwork},  // Lustre.
    {0x47504653, kNetwork},  // GPFS.
    {0x19830326, kNetwork},  // BeeGFS.
    {0x65735546, "is on a file system of a user process (FUSE), often a network's"},
    {0x9123683e, kCopyOnWrite},  // Btrfs.
    {0xca451a4e, kCopyOnWrite},  // bcachefs.
    {0x2fc12fc1, kCopyOnWrite},  // ZFS.
    {0x01021994, kMemory},       // tmpfs.
    {0x858458f6, kMemory},       // ramfs.
}};

}  // namespace

Status PathError(const PathProblem& problem, int error_number, SourceLine at) {
  return Status::Error(
      StatusCode::kIoError,
      problem.path + ": " + problem.what + " (" + Reason(error_number) + "); " + problem.remedy,
      error_number, at);
}

Result<PathKind> LookAtDrivePath(const std::string& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) {
    // A link to nothing is something: EnsurePrivateFolder refuses it.
    if (errno == ENOENT) {
      return PathKind::kNothing;
    }
    return PathError({path, "cannot be looked at", "check the path and its permissions"}, errno);
  }
  if (S_ISDIR(found.st_mode)) {
    return PathKind::kFolder;
  }
  if (S_ISBLK(found.st_mode)) {
    return PathKind::kDevice;
  }
  return Refused({path, "is neither a folder nor a block device",
                  "name the folder that holds " + std::string(kBlocksFileName) + ", or a device"});
}

Result<FileDescriptor> OpenDriveFolder(const std::string& path, DriveAccess access) {
  if (access == DriveAccess::kOwn) {
    KVFERRY_RETURN_IF_ERROR(EnsurePrivateFolder(path));
  }
  FileDescriptor folder(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!folder.is_open()) {
    return PathError({path, "cannot be opened", "check its permissions and what it is"}, errno);
  }
  if (access == DriveAccess::kOwn) {
    KVFERRY_RETURN_IF_ERROR(CheckFolderDescriptor(folder.fd(), path));
  }
  if (access != DriveAccess::kRead) {
    KVFERRY_RETURN_IF_ERROR(LockFolder(folder.fd(), path));
  }
  return folder;
}

Result<FileDescriptor> OpenBlocksFile(const FolderFile& file, DriveAccess access) {
  const int mode = access == DriveAccess::kOwn ? O_RDWR : O_RDONLY;
  // O_NONBLOCK keeps a pipe of that name from holding us; the drive sets its flags afterwards.
  FileDescriptor opened(::openat(file.folder, std::string(file.name).c_str(),
                                 mode | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (opened.is_open()) {
    KVFERRY_RETURN_IF_ERROR(CheckFile(opened.fd(), file.path(), access));
    return opened;
  }
  switch (errno) {
    case ENOENT:
      return opened;
    case ELOOP:
      return Refused({file.path(), "is a link", "remove it: links are not followed"});
    case EISDIR:
    case ENXIO:
      return Refused({file.path(), "is no regular file", "remove it, or give another folder"});
    default:
      return PathError({file.path(), "cannot be opened",
                        "check its permissions, and that its volume is writable"},
                       errno);
  }
}

Result<FileDescriptor> CreateBlocksFile(const FolderFile& file) {
  FileDescriptor made(::openat(file.folder, std::string(file.name).c_str(),
                               O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!made.is_open() || ::fchmod(made.fd(), kFileMode) != 0) {
    return PathError({file.path(), "cannot be made", "check that its volume is writable"}, errno);
  }
  return made;
}

Status SyncDriveFolder(const FolderFile& file) {
  if (::fsync(file.folder) != 0) {
    return PathError({file.folder_path, "cannot be synced", "check the drive"}, errno);
  }
  return Status::Ok();
}

Result<FileDescriptor> OpenBlockDevice(const std::string& path, DriveAccess access) {
  // O_EXCL claims a device as mounting does.
  const int mode = (access == DriveAccess::kOwn ? O_RDWR : O_RDONLY) |
                   (access == DriveAccess::kRead ? 0 : O_EXCL);
  FileDescriptor opened(::open(path.c_str(), mode | O_CLOEXEC | O_NONBLOCK));
  if (!opened.is_open()) {
    if (errno == EBUSY) {
      return Status::Error(StatusCode::kUnavailable,
                           path +
                               ": the device is in use: it is mounted or part of something, or a "
                               "process has the store open; end that, or name another device",
                           EBUSY);
    }
    return PathError({path, "cannot be opened", "check its permissions and that it is attached"},
                     errno);
  }
  struct stat found = {};
  if (::fstat(opened.fd(), &found) != 0 || !S_ISBLK(found.st_mode)) {
    return Refused({path, "is no block device any more", "name a device that stays"});
  }
  return opened;
}

Result<std::uint64_t> SizeOfDrive(int fd, const std::string& path) {
  struct stat found = {};
  if (::fstat(fd, &found) != 0) {
    return PathError({path, "cannot be looked at", "check the drive"}, errno);
  }
  if (!S_ISBLK(found.st_mode)) {
    return static_cast<std::uint64_t>(found.st_size);
  }
  std::uint64_t size_bytes = 0;
  if (::ioctl(fd, BLKGETSIZE64, &size_bytes) != 0) {
    return PathError({path, "does not tell its size", "check the drive"}, errno);
  }
  return size_bytes;
}

std::string FileSystemWarning(int fd, const std::string& path) {
  struct statfs found = {};
  if (::fstatfs(fd, &found) != 0) {
    return {};
  }
  const auto magic = static_cast<std::uint32_t>(found.f_type);
  for (const FileSystemKind& kind : kFileSystems) {
    if (kind.magic == magic) {
      return path + " " + std::string(kind.warning);
    }
  }
  return {};
}

}  // namespace kvferry::tiers
