// Drive: one drive of the NVMe tier, its superblocks, its size, and how it may be read and written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "base/file.h"
#include "tiers/nvme/disk_page.h"
#include "tiers/nvme/drive_file.h"
#include "tiers/nvme/superblock.h"

namespace kvferry::tiers {

// Every error names the path, the reason and what to do.
//
// Thread-compatible; its calls block.
class Drive {
  struct Token {};  // Only Open can name it.

 public:
  // Opens what is there; makes no more than an empty private folder (kOwn). The errors are those of
  // drive_file.h.
  static Result<std::unique_ptr<Drive>> Open(const std::string& path, DriveAccess access);
  Drive(Token token, std::string path, DriveAccess access, bool is_device);
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;
  // Gives the lock up. A half-made file stays; the next Prepare removes it.
  ~Drive() = default;

  const std::string& path() const noexcept { return path_; }
  bool is_device() const noexcept { return is_device_; }
  // Whether there is a file or device; a folder may be without.
  bool is_there() const noexcept { return file_.is_open(); }
  // The file still has the name of one that is being made: a crash may have come before Publish.
  bool is_half_made() const noexcept { return is_half_made_; }
  // For reads and writes that are aligned to pages in memory, length and place. -1 if there is
  // nothing.
  int fd() const noexcept { return file_.fd(); }
  // -1 for a device.
  int folder_fd() const noexcept { return folder_.fd(); }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  // What an operator should know of it, in sentences.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

  // What is there; blank if nothing is. Copies that cannot be read count as damaged.
  SuperblockChoice ReadSuperblock() const;
  // Whether nothing was ever written there: the whole of a file, the first MiB of a device.
  Result<bool> IsBlank() const;

  // The volume of a folder, and what it has for a store there.
  struct Volume {
    std::uint64_t number = 0;  // Of the file system: the same for folders on one volume.
    std::uint64_t free_bytes = 0;
    std::uint64_t needed_bytes = 0;  // Beside what a file that is there has of it already.
  };
  // For a store of `size_bytes`. Nothing for a device, and where the file system does not tell.
  std::optional<Volume> LookAtVolume(std::uint64_t size_bytes) const;
  // kIoError with ENOSPC: `volume` has too little for `drives` of one store that lie on it.
  Status NoRoom(const Volume& volume, std::size_t drives) const;

  // Everything below needs kOwn.

  // Makes room for a store of that many bytes where there is none: a half-made file, or a device
  // whose first MiB is zero afterwards. What the folder has under either name is removed. Ask for
  // the volume's room before: a file system may give all it has, for as long as it takes to refuse.
  // kIoError with ENOSPC: it has too little, and nothing is left of the file.
  Status Prepare(std::uint64_t size_bytes);
  // Undoes Prepare, as far as that is possible.
  void Discard() noexcept;
  // Gives a half-made file its name, durably.
  Status Publish();

  // Writes all copies, one after the other, each synced.
  Status WriteSuperblock(const Superblock& superblock);
  // Writes the copies that are not current.
  Status RepairSuperblock(const SuperblockChoice& choice);

  // Makes room for the segments of `after` behind those of `before`, which are then without a
  // header. On failure a file is as long as before.
  Status Extend(const StoreLayout& before, const StoreLayout& after);
  // Cuts a file that goes on behind `end_bytes`.
  Status CutBehind(std::uint64_t end_bytes);

  // Whether direct I/O works, by a read and, with kOwn, a write of the same bytes between
  // superblocks and segments; the drive goes through the page cache from then on if it does not,
  // with a warning.
  Status SettleDirectIo();

 private:
  FolderFile NameIn(std::string_view name) const;
  std::string file_path() const;
  Status AdoptFile(FileDescriptor file);
  Status OpenInFolder();
  Status Allocate(std::uint64_t size_bytes);
  Status WriteZeros(std::uint64_t offset, std::uint64_t size_bytes);
  Status WriteCopies(const Superblock& superblock,
                     const std::array<bool, kSuperblockCopies>& is_current);
  Result<bool> IsZero(std::uint64_t begin, std::uint64_t end) const;
  Result<bool> TryDirectIo();

  std::string path_;
  DriveAccess access_;
  bool is_device_;
  bool is_half_made_ = false;
  bool was_prepared_ = false;
  std::uint64_t size_bytes_ = 0;
  FileDescriptor folder_;  // Holds the lock; empty for a device.
  FileDescriptor file_;
  std::vector<std::string> warnings_;
};

}  // namespace kvferry::tiers
