// Superblock: what a drive of the NVMe tier says of its store, in four copies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/status.h"

#include "tiers/nvme/disk_page.h"
#include "tiers/nvme/store_layout.h"

namespace kvferry::tiers {

enum class ChecksumKind : std::uint8_t {
  kXxh3 = 1,  // XXH3-128 of a block's host form, seeded by its key (base/checksum.h).
};

inline constexpr std::uint32_t kDriveCountMax = 64;

struct Superblock {
  StoreUuid store;
  std::uint64_t sequence = 0;  // Counts from 1; one more with every change.
  std::uint32_t drive_index = 0;
  std::uint32_t drive_count = 1;
  StoreLayout layout;
  ChecksumKind checksum_kind = ChecksumKind::kXxh3;
  bool operator==(const Superblock&) const = default;
};

// Where a copy lies, from the drive's start.
constexpr std::uint64_t SuperblockOffset(std::size_t copy) {
  return copy * kSuperblockSpacingBytes;
}

// The page of every copy; they are the same. The superblock must be one that ChooseSuperblock would
// take.
void EncodeSuperblock(const Superblock& superblock, DiskPage page);

// The drive's four copies as they were read. An empty one could not be read or lies beyond the end.
using SuperblockCopies = std::array<std::span<const std::byte>, kSuperblockCopies>;

struct SuperblockChoice {
  // kGood: a store. kBlank: all copies are zero, nothing was ever there. kForeign: nothing of ours
  // is there, but something is. kNewer: a store of a later version. kDamaged: ours, but no two
  // copies agree, or what they agree on cannot be.
  PageFinding finding = PageFinding::kDamaged;
  // Ok for kGood, else the reason and what to do.
  Status status;
  Superblock superblock;                             // For kGood.
  std::array<bool, kSuperblockCopies> is_current{};  // Copies that need no repair; for kGood.
  // Above every sequence seen, so that what is written with it wins, over a store of before too.
  std::uint64_t next_sequence = 1;
};

// The newest superblock of which two copies are the same, byte by byte.
//
// Whoever changes it writes one copy after the other, each synced before the next: then whichever
// write a crash tears, the two agreeing copies are the old one's or the new one's.
SuperblockChoice ChooseSuperblock(const SuperblockCopies& copies);

// Whether a drive is the one that its place in the configuration asks for: kInvalidArgument says
// what differs and what to do. The segment count may differ, since stores grow and shrink.
Status CheckSameStore(const Superblock& found, const Superblock& expected);

}  // namespace kvferry::tiers
