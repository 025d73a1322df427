// DriveSet: the drives of one store of the NVMe tier, opened, checked, locked and in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "tiers/nvme/disk_page.h"
#include "tiers/nvme/drive.h"
#include "tiers/nvme/store_layout.h"
#include "tiers/nvme/superblock.h"

namespace kvferry::tiers {

struct DriveSetOptions {
  // One a drive: a folder, in which the drive is a file `blocks.kvferry`, or a raw block device.
  std::vector<std::string> paths;
  // Of all drives together, split evenly, superblocks included. 0: what the store has; a new one on
  // devices takes the smallest device's size on each.
  std::uint64_t capacity_bytes = 0;
  std::uint64_t segment_bytes = 0;  // 0: what the store has; a new one chooses (LayOut).
  // The longest payload. 0 is for a store that is there and keeps its size.
  std::uint64_t block_bytes_max = 0;
  // Overwrite a raw device that holds something else. A device with a store of ours, whole or
  // damaged, is never overwritten, nor one beside drives that have a store.
  bool may_format = false;
  // Files in folders are those of a store that was open, and were cut since: what was written to
  // them afterwards, without a superblock, is ours to overwrite.
  bool was_cut = false;
  // The identity of a store that is to be made; all zero takes one from the system.
  StoreUuid new_store;
  // Only this store will do, and none is made; all zero takes any. For one that was open before: a
  // file system that is not mounted any more leaves a folder where it was.
  StoreUuid must_be;
};

// The drives, each in the place of its index, and ready for an IoRing: every operation on fds()
// must be aligned to pages in memory, length and place, since most drives are open for direct I/O.
//
// A change of size that a crash interrupts is carried out or undone by the next Open. Manifest rows
// of segments at or above layout().segment_count are those of dropped segments, whenever they were
// dropped; the caller forgets them.
//
// Immutable, hence thread-safe; Open blocks. Locks are held until it is gone.
class DriveSet {
  struct Content;  // Only the two Opens can make one.

 public:
  // Read and write, alone. Makes the store where all drives are blank, and repairs damaged copies
  // of superblocks.
  // kInvalidArgument: the paths, sizes or drives do not go together. kUnavailable: someone else has
  // a drive open, or the store that must be there is not. kDataLoss: a superblock is beyond repair,
  // or a file was cut short. kIoError: ENOSPC among others; a store that could not be made is gone
  // again.
  static Result<std::unique_ptr<DriveSet>> Open(const DriveSetOptions& options);
  // Without any change; with kRead beside a process that has the store open, with kReadAlone under
  // the lock. `access` is not kOwn.
  static Result<std::unique_ptr<DriveSet>> OpenForReading(const std::vector<std::string>& paths,
                                                          DriveAccess access = DriveAccess::kRead);
  explicit DriveSet(Content content) noexcept;
  DriveSet(const DriveSet&) = delete;
  DriveSet& operator=(const DriveSet&) = delete;
  ~DriveSet() = default;

  // By drive index; borrowed.
  std::span<const int> fds() const noexcept { return fds_; }
  // Of each drive; they are all alike.
  const StoreLayout& layout() const noexcept { return layout_; }
  const StoreUuid& store() const noexcept { return store_; }
  std::uint32_t drive_count() const noexcept { return static_cast<std::uint32_t>(fds_.size()); }
  const Drive& drive(std::uint32_t drive_index) const { return *drives_.at(drive_index); }
  // As given, but in the order of the drives.
  const std::string& path(std::uint32_t drive_index) const;
  bool is_new() const noexcept { return is_new_; }
  // Of each drive; 0 for a new store.
  std::uint32_t previous_segment_count() const noexcept { return previous_segment_count_; }
  // Of each drive, by this Open.
  std::uint32_t segments_dropped() const noexcept;
  // What an operator should know, in sentences; Open logs nothing.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  std::vector<std::unique_ptr<Drive>> drives_;
  std::vector<int> fds_;
  StoreLayout layout_;
  StoreUuid store_;
  bool is_new_ = false;
  std::uint32_t previous_segment_count_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace kvferry::tiers
