// Pages found by the layout, and what an unreadable one counts as.
#include "tiers/nvme/store_reader.h"

#include <vector>

#include "tiers/nvme/io_errors.h"
#include "tiers/nvme/page_io.h"

namespace kvferry::tiers {
namespace {

Status ReadFrom(int fd, std::span<std::byte> target, std::uint64_t offset) {
  const PageRead read = ReadAt(fd, target, offset);
  if (read.error_number != 0) {
    return IoError("cannot be read", read.error_number);
  }
  return read.size_bytes < target.size() ? TruncatedError("cannot be read") : Status::Ok();
}

}  // namespace

struct StoreReader::PagesRead {
  Status status;
  std::vector<AlignedPage> pages;

  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span<const AlignedPage>(pages));
  }
};

StoreReader::StoreReader(const DriveSet& drives)
    : shape_{drives.store(), drives.layout(), drives.drive_count()}, fds_(drives.fds()) {}

std::uint64_t StoreReader::OffsetOf(std::uint32_t segment, std::uint32_t page) const {
  return shape_.layout.PageOffset(segment / shape_.drive_count, page);
}

SegmentIdentity StoreReader::IdentityOf(std::uint32_t segment) const {
  return {.store = shape_.store,
          .drive_index = DriveOf(segment),
          .segment = segment / shape_.drive_count};
}

StoreReader::PagesRead StoreReader::ReadPages(std::uint32_t segment,
                                              std::uint32_t page,
                                              std::uint32_t page_count) const {
  PagesRead result;
  result.pages.resize(page_count);
  const auto target = std::as_writable_bytes(std::span<AlignedPage>(result.pages));
  const std::uint32_t drive = DriveOf(segment);
  const std::uint64_t offset = OffsetOf(segment, page);
  result.status = source_ != nullptr ? source_->ReadPages(drive, offset, target)
                                     : ReadFrom(fds_[drive], target, offset);
  return result;
}

SegmentHeaderRead StoreReader::ReadHeader(std::uint32_t segment) const {
  const PagesRead read = ReadPages(segment, 0, 1);
  if (!read.status.ok()) {
    return {.finding = PageFinding::kDamaged, .status = read.status, .header = {}};
  }
  return ReadSegmentHeader(read.bytes(), IdentityOf(segment));
}

FooterRead StoreReader::ReadFooterOf(const SegmentLife& life) const {
  const std::uint32_t pages = pages_per_segment();
  const FooterIdentity identity{.segment = IdentityOf(life.segment),
                                .generation = life.generation,
                                .pages_per_segment = pages};
  FooterRead footer;
  const PagesRead last = ReadPages(life.segment, pages - 1, 1);
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
  const PagesRead all = ReadPages(life.segment, pages - count, count);
  if (!all.status.ok()) {
    footer.status = all.status;
    return footer;
  }
  return ReadFooter(all.bytes(), identity);
}

std::uint64_t StoreReader::FooterGenerationOf(std::uint32_t segment) const {
  const PagesRead last = ReadPages(segment, pages_per_segment() - 1, 1);
  if (!last.status.ok()) {
    return 0;
  }
  const FrameRead frame = ReadFrame(last.bytes(), PageKind::kSegmentFooter);
  const bool is_ours = frame.finding == PageFinding::kGood && frame.frame.store == shape_.store;
  return is_ours ? frame.frame.number : 0;
}

}  // namespace kvferry::tiers
