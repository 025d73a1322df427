// Pages found by the layout, and what an unreadable one counts as.
#include "tiers/nvme/store_reader.h"

#include <cstddef>
#include <span>
#include <vector>

#include "tiers/nvme/io_errors.h"
#include "tiers/nvme/page_io.h"

namespace kvferry::tiers {
namespace {

struct PagesRead {
  Status status;
  std::vector<AlignedPage> pages;

  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span<const AlignedPage>(pages));
  }
};

PagesRead ReadPages(int fd, std::uint64_t offset, std::uint32_t page_count) {
  PagesRead result;
  result.pages.resize(page_count);
  const auto target = std::as_writable_bytes(std::span<AlignedPage>(result.pages));
  const PageRead read = ReadAt(fd, target, offset);
  if (read.error_number != 0) {
    result.status = IoError("cannot be read", read.error_number);
  } else if (read.size_bytes < target.size()) {
    result.status = TruncatedError("cannot be read");
  }
  return result;
}

}  // namespace

std::uint32_t StoreReader::segment_count() const {
  return drives_.layout().segment_count * drives_.drive_count();
}

std::uint64_t StoreReader::OffsetOf(std::uint32_t segment, std::uint32_t page) const {
  return drives_.layout().PageOffset(segment / drives_.drive_count(), page);
}

SegmentIdentity StoreReader::IdentityOf(std::uint32_t segment) const {
  return {.store = drives_.store(),
          .drive_index = DriveOf(segment),
          .segment = segment / drives_.drive_count()};
}

SegmentHeaderRead StoreReader::ReadHeader(std::uint32_t segment) const {
  const PagesRead read = ReadPages(drives_.fds()[DriveOf(segment)], OffsetOf(segment, 0), 1);
  if (!read.status.ok()) {
    return {.finding = PageFinding::kDamaged, .status = read.status, .header = {}};
  }
  return ReadSegmentHeader(read.bytes(), IdentityOf(segment));
}

FooterRead StoreReader::ReadFooterOf(const SegmentLife& life) const {
  const std::uint32_t pages = drives_.layout().pages_per_segment();
  const FooterIdentity identity{.segment = IdentityOf(life.segment),
                                .generation = life.generation,
                                .pages_per_segment = pages};
  const int fd = drives_.fds()[DriveOf(life.segment)];
  FooterRead footer;
  const PagesRead last = ReadPages(fd, OffsetOf(life.segment, pages - 1), 1);
  if (!last.status.ok()) {
    footer.status = last.status;
    return footer;
  }
  const FooterPageRead page = ReadFooterPage(last.bytes(), identity);
  if (page.finding != PageFinding::kGood) {
    footer.finding = page.finding;
    footer.status = page.status;
    return footer;
  }
  // A good page's count is within the segment.
  const std::uint32_t count = page.page.page_count;
  const PagesRead all = ReadPages(fd, OffsetOf(life.segment, pages - count), count);
  if (!all.status.ok()) {
    footer.status = all.status;
    return footer;
  }
  return ReadFooter(all.bytes(), identity);
}

}  // namespace kvferry::tiers
