// StoreReader: headers and footers of a store's segments, read from its drives one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/status.h"

#include "tiers/nvme/drive_set.h"
#include "tiers/nvme/manifest_rows.h"
#include "tiers/nvme/segment_footer.h"
#include "tiers/nvme/segment_header.h"

namespace kvferry::tiers {

// Where pages come from that are not a drive's.
class PageSource {
 public:
  virtual ~PageSource() = default;
  // Whole pages of a drive; what keeps them from being read.
  virtual Status ReadPages(std::uint32_t drive,
                           std::uint64_t offset_bytes,
                           std::span<std::byte> target) const = 0;
};

// Segments have the numbers of the whole store: `segment` lies on drive segment % drive_count as
// that drive's segment / drive_count.
//
// Thread-compatible; its calls block.
class StoreReader {
 public:
  // Borrows the drives until it is gone.
  explicit StoreReader(const DriveSet& drives);
  struct Shape {
    StoreUuid store;
    StoreLayout layout;  // Of every drive.
    std::uint32_t drive_count = 1;
  };
  // Likewise.
  StoreReader(const Shape& shape, const PageSource& source) : shape_(shape), source_(&source) {}

  const StoreUuid& store() const { return shape_.store; }
  std::uint32_t segment_count() const { return shape_.layout.segment_count * shape_.drive_count; }
  std::uint32_t pages_per_segment() const { return shape_.layout.pages_per_segment(); }
  std::uint32_t drive_count() const { return shape_.drive_count; }
  // Where a page lies on its drive.
  std::uint64_t OffsetOf(std::uint32_t segment, std::uint32_t page) const;
  std::uint32_t DriveOf(std::uint32_t segment) const { return segment % shape_.drive_count; }

  // What cannot be read is damaged, with the drive's error as the reason.
  SegmentHeaderRead ReadHeader(std::uint32_t segment) const;
  FooterRead ReadFooterOf(const SegmentLife& life) const;
  // Of whichever life the segment's last page is a footer's; 0: it is none.
  std::uint64_t FooterGenerationOf(std::uint32_t segment) const;

 private:
  struct PagesRead;

  SegmentIdentity IdentityOf(std::uint32_t segment) const;
  PagesRead ReadPages(std::uint32_t segment, std::uint32_t page, std::uint32_t page_count) const;

  Shape shape_;
  std::span<const int> fds_;  // By drive; where there is no source.
  const PageSource* source_ = nullptr;
};

}  // namespace kvferry::tiers
