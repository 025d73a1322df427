// Preallocation, superblock writes copy by copy, and the probe of direct I/O.
#include "tiers/nvme/drive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "tiers/nvme/page_io.h"

namespace kvferry::tiers {
namespace {

constexpr std::uint64_t kProbeAt = kSuperblockCopies * kSuperblockSpacingBytes;
constexpr std::size_t kPieceBytes = 256 * kKiB;
static_assert(kProbeAt + kDiskPageBytes <= kSegmentsAtBytes);

using AlignedPiece = AlignedBytes<kPieceBytes>;

// 0 or errno.
int FallocateAt(int fd, std::uint64_t begin, std::uint64_t end) {
  while (::fallocate(fd, 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

bool RefusesDirectIo(int error_number) {
  return error_number == EINVAL || error_number == EOPNOTSUPP;
}

}  // namespace

Drive::Drive(Token /*token*/, std::string path, DriveAccess access, bool is_device)
    : path_(std::move(path)), access_(access), is_device_(is_device) {}

FolderFile Drive::NameIn(std::string_view name) const {
  return {.folder = folder_.fd(), .folder_path = path_, .name = name};
}

std::string Drive::file_path() const {
  return is_device_ ? path_ : NameIn(is_half_made_ ? kHalfMadeFileName : kBlocksFileName).path();
}

Result<std::unique_ptr<Drive>> Drive::Open(const std::string& path, DriveAccess access) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') {
    name.pop_back();  // With a slash behind it a link would be followed.
  }
  KVFERRY_ASSIGN_OR_RETURN(const PathKind kind, LookAtDrivePath(name));
  if (kind == PathKind::kNothing && access != DriveAccess::kOwn) {
    return PathError({name, "holds no store", "check the path"}, ENOENT);
  }
  const bool is_device = kind == PathKind::kDevice;
  auto drive = std::make_unique<Drive>(Token(), name, access, is_device);
  if (is_device) {
    KVFERRY_ASSIGN_OR_RETURN(FileDescriptor device, OpenBlockDevice(name, access));
    KVFERRY_RETURN_IF_ERROR(drive->AdoptFile(std::move(device)));
    return drive;
  }
  KVFERRY_ASSIGN_OR_RETURN(drive->folder_, OpenDriveFolder(name, access));
  KVFERRY_RETURN_IF_ERROR(drive->OpenInFolder());
  return drive;
}

Status Drive::OpenInFolder() {
  if (std::string warning = FileSystemWarning(folder_.fd(), path_); !warning.empty()) {
    warnings_.push_back(std::move(warning));
  }
  KVFERRY_ASSIGN_OR_RETURN(FileDescriptor whole, OpenBlocksFile(NameIn(kBlocksFileName), access_));
  if (whole.is_open()) {
    return AdoptFile(std::move(whole));
  }
  if (access_ != DriveAccess::kOwn) {
    return Status::Ok();
  }
  KVFERRY_ASSIGN_OR_RETURN(FileDescriptor half, OpenBlocksFile(NameIn(kHalfMadeFileName), access_));
  if (!half.is_open()) {
    return Status::Ok();
  }
  is_half_made_ = true;
  return AdoptFile(std::move(half));
}

// Direct I/O is asked for here; a file system that has none says so at once, or at the first read.
Status Drive::AdoptFile(FileDescriptor file) {
  KVFERRY_ASSIGN_OR_RETURN(size_bytes_, SizeOfDrive(file.fd(), file_path()));
  file_ = std::move(file);
  if (::fcntl(file_.fd(), F_SETFL, O_DIRECT) != 0 && ::fcntl(file_.fd(), F_SETFL, 0) != 0) {
    return PathError({file_path(), "cannot be set up", "check the drive"}, errno);
  }
  KVFERRY_ASSIGN_OR_RETURN(const bool is_direct, TryDirectIo());
  if (!is_direct && ::fcntl(file_.fd(), F_SETFL, 0) != 0) {
    return PathError({file_path(), "cannot be set up", "check the drive"}, errno);
  }
  return Status::Ok();
}

// Without a change: reads only.
Result<bool> Drive::TryDirectIo() {
  if ((::fcntl(file_.fd(), F_GETFL) & O_DIRECT) == 0) {
    return false;
  }
  AlignedPage page;
  // Other errors are for the reads that matter.
  return !RefusesDirectIo(ReadAt(file_.fd(), page.bytes, kProbeAt).error_number);
}

Status Drive::SettleDirectIo() {
  KVFERRY_ASSIGN_OR_RETURN(bool is_direct, TryDirectIo());
  if (is_direct && access_ == DriveAccess::kOwn) {
    AlignedPage page;
    int error = ReadAt(file_.fd(), page.bytes, kProbeAt).error_number;
    error = error != 0 ? error : WriteAt(file_.fd(), page.bytes, kProbeAt);
    if (error != 0 && !RefusesDirectIo(error)) {
      return PathError({file_path(), "fails a read and a write of a page at 256 KiB",
                        "check the drive and that its volume is writable"},
                       error);
    }
    is_direct = error == 0;
  }
  if (is_direct) {
    return Status::Ok();
  }
  if (::fcntl(file_.fd(), F_SETFL, 0) != 0) {
    return PathError({file_path(), "cannot be set up", "check the drive"}, errno);
  }
  warnings_.push_back(file_path() +
                      " takes no direct I/O: its blocks pass through the page cache, which costs "
                      "memory and time; use ext4 or XFS");
  return Status::Ok();
}

SuperblockChoice Drive::ReadSuperblock() const {
  std::array<AlignedPage, kSuperblockCopies> pages;
  SuperblockCopies copies;
  for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
    copies[i] = pages[i].bytes;
    if (is_there()) {
      const PageRead read = ReadAt(file_.fd(), pages[i].bytes, SuperblockOffset(i));
      copies[i] = copies[i].first(read.error_number == 0 ? read.size_bytes : 0);
    }
  }
  if (is_there() && size_bytes_ == 0) {
    copies.fill(pages[0].bytes);  // An empty file is as blank as none.
  }
  SuperblockChoice choice = ChooseSuperblock(copies);
  choice.status = choice.status.WithContext(file_path());
  return choice;
}

Result<bool> Drive::IsZero(std::uint64_t begin, std::uint64_t end) const {
  const auto piece = std::make_unique<AlignedPiece>();
  for (std::uint64_t at = begin; at < end; at += kPieceBytes) {
    const std::size_t wanted = static_cast<std::size_t>(
        std::min<std::uint64_t>(kPieceBytes, AlignUp(end - at, kDiskPageBytes)));
    const PageRead read = ReadAt(file_.fd(), std::span(piece->bytes).first(wanted), at);
    if (read.error_number != 0) {
      return PathError({file_path(), "cannot be read", "check the drive"}, read.error_number);
    }
    const auto bytes = std::span(piece->bytes).first(read.size_bytes);
    if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{}; })) {
      return false;
    }
  }
  return true;
}

Result<bool> Drive::IsBlank() const {
  if (!is_there()) {
    return true;
  }
  if (is_device_) {
    return IsZero(0, std::min(size_bytes_, kSegmentsAtBytes));
  }
  // Room that was allocated but never written counts as a hole.
  off_t at = 0;
  while (true) {
    const off_t data = ::lseek(file_.fd(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      return true;
    }
    const off_t hole = data < 0 ? -1 : ::lseek(file_.fd(), data, SEEK_HOLE);
    if (hole < 0) {
      return IsZero(0, size_bytes_);
    }
    const std::uint64_t begin = static_cast<std::uint64_t>(data) / kDiskPageBytes * kDiskPageBytes;
    KVFERRY_ASSIGN_OR_RETURN(const bool is_zero, IsZero(begin, static_cast<std::uint64_t>(hole)));
    if (!is_zero) {
      return false;
    }
    at = hole;
  }
}

std::optional<Drive::Volume> Drive::LookAtVolume(std::uint64_t size_bytes) const {
  struct statvfs volume = {};
  struct stat folder = {};
  if (is_device_ || ::fstatvfs(folder_.fd(), &volume) != 0 || volume.f_blocks == 0 ||
      ::fstat(folder_.fd(), &folder) != 0) {
    return std::nullopt;
  }
  struct stat file = {};
  constexpr std::uint64_t kStatBlockBytes = 512;
  const std::uint64_t has = file_.is_open() && ::fstat(file_.fd(), &file) == 0
                                ? static_cast<std::uint64_t>(file.st_blocks) * kStatBlockBytes
                                : 0;
  return Volume{.number = folder.st_dev,
                .free_bytes = std::uint64_t{volume.f_bavail} * volume.f_frsize,
                .needed_bytes = size_bytes - std::min(size_bytes, has)};
}

Status Drive::NoRoom(const Volume& volume, std::size_t drives) const {
  return PathError(
      {NameIn(kBlocksFileName).path(),
       "needs " + FormatBytes(volume.needed_bytes) + " more on its volume" +
           (drives > 1 ? " for " + std::to_string(drives) + " drives of the store" : "") +
           ", which has " + FormatBytes(volume.free_bytes) + " free",
       "free some, or lower the tier's capacity (nvme.capacity_bytes)"},
      ENOSPC);
}

Status Drive::Allocate(std::uint64_t size_bytes) {
  const int error = FallocateAt(file_.fd(), size_bytes_, size_bytes);
  if (error == EOPNOTSUPP) {
    if (::ftruncate(file_.fd(), static_cast<off_t>(size_bytes)) != 0) {
      return PathError({file_path(), "cannot be extended", "check the volume's limits"}, errno);
    }
    warnings_.push_back(file_path() +
                        " is on a file system without preallocation: writes fail later if the "
                        "volume fills up; use ext4 or XFS");
  } else if (error != 0) {
    // What the file system had found so far is given back; that may fail without harm.
    (void)!::ftruncate(file_.fd(), static_cast<off_t>(size_bytes_));
    const auto volume = error == ENOSPC ? LookAtVolume(size_bytes) : std::nullopt;
    return volume ? NoRoom(*volume, 1)
                  : PathError({file_path(), "cannot be extended to " + FormatBytes(size_bytes),
                               "check the volume's limits and quotas, and the drive"},
                              error);
  }
  if (::fsync(file_.fd()) != 0) {
    return PathError({file_path(), "cannot be synced", "check the drive"}, errno);
  }
  size_bytes_ = size_bytes;
  return Status::Ok();
}

Status Drive::WriteZeros(std::uint64_t offset, std::uint64_t size_bytes) {
  const auto zeros = std::make_unique<AlignedPiece>();
  for (std::uint64_t at = 0; at < size_bytes; at += kPieceBytes) {
    const auto piece =
        std::span(zeros->bytes)
            .first(static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, size_bytes - at)));
    if (const int error = WriteAt(file_.fd(), piece, offset + at); error != 0) {
      return PathError({file_path(), "cannot be written", "check the drive"}, error);
    }
  }
  return Status::Ok();
}

Status Drive::Prepare(std::uint64_t size_bytes) {
  KVFERRY_CHECK(access_ == DriveAccess::kOwn);
  if (is_device_) {
    if (size_bytes > size_bytes_) {
      return Status::Error(StatusCode::kInvalidArgument,
                           path_ + ": has " + FormatBytes(size_bytes_) + ", too little for " +
                               FormatBytes(size_bytes) + "; lower the tier's capacity");
    }
    was_prepared_ = true;
    KVFERRY_RETURN_IF_ERROR(WriteZeros(0, kSegmentsAtBytes));
    return SettleDirectIo();
  }
  (void)file_.Close();
  size_bytes_ = 0;
  for (const std::string_view name : {kHalfMadeFileName, kBlocksFileName}) {
    if (::unlinkat(folder_.fd(), std::string(name).c_str(), 0) != 0 && errno != ENOENT) {
      return PathError({NameIn(name).path(), "cannot be removed", "remove it"}, errno);
    }
  }
  is_half_made_ = true;
  KVFERRY_ASSIGN_OR_RETURN(FileDescriptor made, CreateBlocksFile(NameIn(kHalfMadeFileName)));
  was_prepared_ = true;
  KVFERRY_RETURN_IF_ERROR(AdoptFile(std::move(made)));
  KVFERRY_RETURN_IF_ERROR(Allocate(size_bytes));
  return SettleDirectIo();
}

void Drive::Discard() noexcept {
  if (!was_prepared_) {
    return;
  }
  was_prepared_ = false;
  if (is_device_) {
    for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
      const AlignedPage zeros;
      (void)WriteAt(file_.fd(), zeros.bytes, SuperblockOffset(i));
    }
    (void)::fdatasync(file_.fd());
    return;
  }
  const std::string_view name = is_half_made_ ? kHalfMadeFileName : kBlocksFileName;
  (void)::unlinkat(folder_.fd(), name.data(), 0);
  (void)file_.Close();
}

Status Drive::Publish() {
  if (!is_half_made_) {
    return Status::Ok();
  }
  const FolderFile target = NameIn(kBlocksFileName);
  if (::renameat(folder_.fd(), kHalfMadeFileName.data(), folder_.fd(), kBlocksFileName.data()) !=
      0) {
    return PathError({target.path(), "cannot get its name", "check that its volume is writable"},
                     errno);
  }
  is_half_made_ = false;
  return SyncDriveFolder(target);
}

Status Drive::WriteCopies(const Superblock& superblock,
                          const std::array<bool, kSuperblockCopies>& is_current) {
  KVFERRY_CHECK(access_ == DriveAccess::kOwn);
  AlignedPage page;
  EncodeSuperblock(superblock, page.bytes);
  for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
    if (is_current[i]) {
      continue;
    }
    int error = WriteAt(file_.fd(), page.bytes, SuperblockOffset(i));
    if (error == 0 && ::fdatasync(file_.fd()) != 0) {
      error = errno;
    }
    if (error != 0) {
      return PathError(
          {file_path(), "cannot write copy " + std::to_string(i) + " of its superblock",
           "check the drive and that its volume is writable"},
          error);
    }
  }
  return Status::Ok();
}

Status Drive::WriteSuperblock(const Superblock& superblock) {
  return WriteCopies(superblock, {});
}

Status Drive::RepairSuperblock(const SuperblockChoice& choice) {
  return WriteCopies(choice.superblock, choice.is_current);
}

Status Drive::Extend(const StoreLayout& before, const StoreLayout& after) {
  KVFERRY_CHECK(access_ == DriveAccess::kOwn);
  KVFERRY_CHECK(before.segment_bytes == after.segment_bytes);
  if (!is_device_) {
    // What lies there was dropped by a shrinking that did not come to its end.
    KVFERRY_RETURN_IF_ERROR(CutBehind(before.end_bytes()));
    return Allocate(after.end_bytes());
  }
  if (after.end_bytes() > size_bytes_) {
    return Status::Error(StatusCode::kInvalidArgument,
                         path_ + ": has " + FormatBytes(size_bytes_) + ", too little for " +
                             FormatBytes(after.end_bytes()) + "; lower the tier's capacity");
  }
  // Segments that were dropped once must not come back with their blocks.
  for (std::uint32_t segment = before.segment_count; segment < after.segment_count; ++segment) {
    KVFERRY_RETURN_IF_ERROR(WriteZeros(after.PageOffset(segment, 0), kDiskPageBytes));
  }
  if (::fdatasync(file_.fd()) != 0) {
    return PathError({path_, "cannot be synced", "check the drive"}, errno);
  }
  return Status::Ok();
}

Status Drive::CutBehind(std::uint64_t end_bytes) {
  KVFERRY_CHECK(access_ == DriveAccess::kOwn);
  if (is_device_ || size_bytes_ <= end_bytes) {
    return Status::Ok();
  }
  if (::ftruncate(file_.fd(), static_cast<off_t>(end_bytes)) != 0 || ::fsync(file_.fd()) != 0) {
    return PathError({file_path(), "cannot be cut", "check the drive"}, errno);
  }
  size_bytes_ = end_bytes;
  return Status::Ok();
}

}  // namespace kvferry::tiers
