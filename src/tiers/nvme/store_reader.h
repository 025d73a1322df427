// StoreReader: headers and footers of a store's segments, read from its drives one by one.
#pragma once

#include <cstdint>

#include "tiers/nvme/drive_set.h"
#include "tiers/nvme/manifest_rows.h"
#include "tiers/nvme/segment_footer.h"
#include "tiers/nvme/segment_header.h"

namespace kvferry::tiers {

// Segments have the numbers of the whole store: `segment` lies on drive segment % drive_count as
// that drive's segment / drive_count.
//
// Thread-compatible; its calls block.
class StoreReader {
 public:
  // Borrows the drives until it is gone.
  explicit StoreReader(const DriveSet& drives) : drives_(drives) {}

  std::uint32_t segment_count() const;
  std::uint32_t drive_count() const { return drives_.drive_count(); }
  // Where a page lies on its drive.
  std::uint64_t OffsetOf(std::uint32_t segment, std::uint32_t page) const;
  std::uint32_t DriveOf(std::uint32_t segment) const { return segment % drives_.drive_count(); }

  // What cannot be read is damaged, with the drive's error as the reason.
  SegmentHeaderRead ReadHeader(std::uint32_t segment) const;
  FooterRead ReadFooterOf(const SegmentLife& life) const;

 private:
  SegmentIdentity IdentityOf(std::uint32_t segment) const;

  const DriveSet& drives_;
};

}  // namespace kvferry::tiers
