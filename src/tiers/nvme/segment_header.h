// SegmentHeader: page 0 of a segment, which says whose life of the segment the pages after it are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/status.h"

#include "tiers/nvme/disk_page.h"
#include "tiers/nvme/manifest_rows.h"

namespace kvferry::tiers {

// Which segment of the world.
struct SegmentIdentity {
  StoreUuid store;
  std::uint32_t drive_index = 0;
  std::uint32_t segment = 0;
  bool operator==(const SegmentIdentity&) const = default;
};

struct SegmentHeader {
  SegmentIdentity identity;
  std::uint64_t generation = 0;  // From 1; higher than every one before in the whole store.
  SegmentStream stream = SegmentStream::kNormal;
  std::int64_t opened_unix_ms = 0;  // 0 up to the year 9999.
  bool operator==(const SegmentHeader&) const = default;
};

// The header must be one that ReadSegmentHeader finds good.
void EncodeSegmentHeader(const SegmentHeader& header, DiskPage page);

struct SegmentHeaderRead {
  // kForeign: of another store, drive or segment, or nothing of ours. kNewer and kDamaged: the
  // segment's blocks can be neither found nor told from older ones. kBlank: never opened. Whatever
  // it is but kGood, what lies in the segment is a miss, and opening it anew heals it.
  PageFinding finding = PageFinding::kDamaged;
  Status status;         // Ok for kGood, else the reason.
  SegmentHeader header;  // For kGood.
};
// `bytes` may be anything of any length.
SegmentHeaderRead ReadSegmentHeader(std::span<const std::byte> bytes,
                                    const SegmentIdentity& expected);

}  // namespace kvferry::tiers
