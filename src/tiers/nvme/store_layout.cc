// The arithmetic of places on a drive; everything fits 64 bits within the format's bounds.
#include "tiers/nvme/store_layout.h"

#include <algorithm>
#include <string>

namespace kvferry::tiers {
namespace {

// The bounds keep every product and sum in here far below 2^63.
static_assert(kSegmentBytesMax * kSegmentCountMax < (std::uint64_t{1} << 60));
static_assert(kSuperblockCopies * kSuperblockSpacingBytes <= kSegmentsAtBytes);

Status DoesNotAddUp(const std::string& what) {
  return Status::Error(StatusCode::kDataLoss, what);
}

Status Impossible(const std::string& what) {
  return Status::Error(StatusCode::kInvalidArgument, what);
}

Status CheckSegmentBytes(std::uint64_t segment_bytes) {
  if (segment_bytes < kSegmentBytesMin || segment_bytes > kSegmentBytesMax ||
      segment_bytes % kSegmentBytesUnit != 0) {
    return Impossible("a segment of " + std::to_string(segment_bytes) +
                      " bytes cannot be: choose whole MiB from 1 MiB to 1 GiB");
  }
  return Status::Ok();
}

Status CheckRow(const BlockRow& row, std::uint32_t start_page, std::uint32_t end_page) {
  if (row.stored_bytes == 0 || row.raw_bytes == 0 || row.raw_bytes > kBlockBytesMax) {
    return DoesNotAddUp("has lengths that cannot be");
  }
  if (row.codec == 0 && row.stored_bytes != row.raw_bytes) {
    return DoesNotAddUp("is not encoded but has two lengths");
  }
  if (row.page < start_page) {
    return DoesNotAddUp("overlaps what lies before it");
  }
  if (row.page >= end_page || PayloadPages(row.stored_bytes) > end_page - row.page) {
    return DoesNotAddUp("ends beyond the payloads' pages");
  }
  return Status::Ok();
}

}  // namespace

std::uint64_t StoreLayout::PageOffset(std::uint32_t segment, std::uint32_t page) const {
  KVFERRY_CHECK(segment < segment_count && page < pages_per_segment());
  return kSegmentsAtBytes + segment * segment_bytes + std::uint64_t{page} * kDiskPageBytes;
}

Status CheckLayout(const StoreLayout& layout) {
  if (const Status size = CheckSegmentBytes(layout.segment_bytes); !size.ok()) {
    return DoesNotAddUp(std::string(size.message()));
  }
  if (layout.segment_count < kSegmentCountMin || layout.segment_count > kSegmentCountMax) {
    return DoesNotAddUp(std::to_string(layout.segment_count) + " segments cannot be");
  }
  return Status::Ok();
}

Status CheckFits(const StoreLayout& layout, std::uint64_t drive_bytes) {
  KVFERRY_RETURN_IF_ERROR(CheckLayout(layout));
  if (layout.end_bytes() > drive_bytes) {
    return DoesNotAddUp("the store's segments end at byte " + std::to_string(layout.end_bytes()) +
                        " but the drive or file ends at " + std::to_string(drive_bytes) +
                        ": it was cut short; restore its length or format it anew");
  }
  return Status::Ok();
}

std::uint64_t CapacityFor(std::uint64_t data_bytes) {
  // Whichever of the three parts is the manifest's, that capacity is enough; so the least is.
  const std::uint64_t with_eighth = data_bytes + data_bytes / 7 + 1;
  const std::uint64_t with_floor = data_bytes + 64 * kMiB;
  const std::uint64_t with_share = data_bytes + data_bytes / 255 + 1;
  return AlignUp(std::min(with_eighth, std::max(with_floor, with_share)), kMiB);
}

std::uint64_t SegmentBytesFor(std::uint64_t block_bytes_max) {
  const std::uint64_t payloads = kBlocksPerSegmentMin * AlignUp(block_bytes_max, kDiskPageBytes);
  const std::uint64_t around =
      std::uint64_t{kDiskPageBytes} * (1 + FooterPages(kBlocksPerSegmentMin));
  return AlignUp(payloads + around, kSegmentBytesUnit);
}

Result<StoreLayout> LayOut(const LayoutRequest& request) {
  if (request.block_bytes_max == 0 || request.block_bytes_max > kBlockBytesMax) {
    return Impossible("blocks of " + std::to_string(request.block_bytes_max) +
                      " bytes cannot be stored: they have 1 byte to 255 MiB");
  }
  const std::uint64_t least_bytes = SegmentBytesFor(request.block_bytes_max);
  std::uint64_t segment_bytes = request.segment_bytes;
  if (segment_bytes == 0) {
    const std::uint64_t share = request.capacity_bytes / 64 / kSegmentBytesUnit * kSegmentBytesUnit;
    segment_bytes =
        std::max(least_bytes, std::clamp(share, kSegmentBytesMin, kSegmentBytesDefault));
  }
  KVFERRY_RETURN_IF_ERROR(CheckSegmentBytes(segment_bytes));
  if (segment_bytes < least_bytes) {
    return Impossible("four blocks of up to " + std::to_string(request.block_bytes_max) +
                      " bytes do not fit a segment of " + FormatBytes(segment_bytes) +
                      ": it needs " + FormatBytes(least_bytes) +
                      "; lower block_bytes, or begin a new store: one that is there keeps the "
                      "segment size it was made with");
  }
  const std::uint64_t for_segments =
      request.capacity_bytes - std::min(request.capacity_bytes, kSegmentsAtBytes);
  const std::uint64_t count =
      std::min<std::uint64_t>(for_segments / segment_bytes, kSegmentCountMax);
  if (count < kSegmentCountMin) {
    return Impossible("two segments of " + FormatBytes(segment_bytes) + " do not fit into " +
                      FormatBytes(request.capacity_bytes) + ": the capacity must be at least " +
                      FormatBytes(kSegmentsAtBytes + kSegmentCountMin * segment_bytes));
  }
  return StoreLayout{.segment_bytes = segment_bytes,
                     .segment_count = static_cast<std::uint32_t>(count)};
}

std::uint32_t PayloadsMax(std::uint32_t pages_per_segment) {
  KVFERRY_CHECK(pages_per_segment >= 2);
  // A full footer page and its payloads are one group; what is left over starts with a page.
  const std::uint32_t pages = pages_per_segment - 1;
  const std::uint32_t rest = pages % (kFooterRowsPerPage + 1);
  return pages / (kFooterRowsPerPage + 1) * kFooterRowsPerPage + (rest == 0 ? 0 : rest - 1);
}

std::uint32_t FooterFirstPage(std::uint32_t pages_per_segment, std::uint32_t row_count) {
  KVFERRY_CHECK(row_count <= PayloadsMax(pages_per_segment));
  return pages_per_segment - FooterPages(row_count);
}

Status CheckRows(std::span<const BlockRow> rows, std::uint32_t end_page) {
  std::uint32_t next_page = 1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Status row = CheckRow(rows[i], next_page, end_page);
    if (!row.ok()) {
      return DoesNotAddUp("payload " + std::to_string(i) + " at page " +
                          std::to_string(rows[i].page) + " " + std::string(row.message()));
    }
    next_page = rows[i].page + PayloadPages(rows[i].stored_bytes);
  }
  return Status::Ok();
}

}  // namespace kvferry::tiers
