// StoreLayout: where superblocks, segments, payloads and footers lie on a drive of the NVMe tier.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/status.h"

#include "base/bytes.h"
#include "tiers/nvme/manifest_rows.h"

namespace kvferry::tiers {

inline constexpr std::uint32_t kDiskPageBytes = 4096;
inline constexpr std::size_t kSuperblockCopies = 4;
inline constexpr std::uint64_t kSuperblockSpacingBytes = 64 * kKiB;
inline constexpr std::uint64_t kSegmentsAtBytes = kMiB;
inline constexpr std::uint64_t kSegmentBytesMin = kMiB;
inline constexpr std::uint64_t kSegmentBytesMax = kGiB;
inline constexpr std::uint64_t kSegmentBytesDefault = 256 * kMiB;
inline constexpr std::uint64_t kSegmentBytesUnit = kMiB;  // Sizes are multiples of it.
inline constexpr std::uint32_t kSegmentCountMin = 2;
inline constexpr std::uint32_t kSegmentCountMax = std::uint32_t{1} << 28;
inline constexpr std::uint32_t kBlocksPerSegmentMin = 4;
inline constexpr std::uint32_t kFooterRowsPerPage = 62;
inline constexpr std::uint64_t kBlockBytesMax = 255 * kMiB;  // Four of them fit a segment.

// Of one drive. The numbers may come from a drive: nothing but CheckLayout is to be called before
// that has found them good.
struct StoreLayout {
  std::uint64_t segment_bytes = 0;
  std::uint32_t segment_count = 0;

  std::uint32_t pages_per_segment() const {
    return static_cast<std::uint32_t>(segment_bytes / kDiskPageBytes);
  }
  // From the drive's start. `segment` and `page` must be of this layout.
  std::uint64_t PageOffset(std::uint32_t segment, std::uint32_t page) const;
  // Where the last segment ends.
  std::uint64_t end_bytes() const { return kSegmentsAtBytes + segment_bytes * segment_count; }
  bool operator==(const StoreLayout&) const = default;
};

// Whether the sizes and counts are within the format's bounds; kDataLoss names the first that is
// not.
Status CheckLayout(const StoreLayout& layout);
// Whether the segments end before the drive or file does; kDataLoss if it has become shorter.
Status CheckFits(const StoreLayout& layout, std::uint64_t drive_bytes);

// What of the capacity the drives' files may take together. The rest is the manifest's:
// max(64 MiB, capacity / 256), but at most an eighth. Rows are 64 bytes, so 1/256 holds those of
// blocks of 32 KiB twice, which compaction needs; 64 MiB hold RocksDB's buffers and logs, which do
// not shrink with the store as far as tests and small stores do.
constexpr std::uint64_t DataBytesOf(std::uint64_t capacity_bytes) {
  const std::uint64_t manifest_bytes = std::max(64 * kMiB, capacity_bytes / 256);
  return capacity_bytes - std::min(manifest_bytes, capacity_bytes / 8);
}
// A capacity in whole MiB whose DataBytesOf is at least `data_bytes`, which is at most 2^62; the
// least such one but for 1 MiB.
std::uint64_t CapacityFor(std::uint64_t data_bytes);

// The least size of a segment for four blocks of that many bytes, with header and footer.
std::uint64_t SegmentBytesFor(std::uint64_t block_bytes_max);

struct LayoutRequest {
  std::uint64_t capacity_bytes = 0;   // What the file may take, all included.
  std::uint64_t segment_bytes = 0;    // 0 chooses: min(256 MiB, capacity / 64), for 4 blocks.
  std::uint64_t block_bytes_max = 0;  // The longest payload.
};
// The layout with the most segments that the capacity holds. kInvalidArgument: the segment size is
// outside the bounds, four blocks do not fit a segment, or two segments do not fit the capacity.
Result<StoreLayout> LayOut(const LayoutRequest& request);

// How many pages a payload takes; at least 1.
constexpr std::uint32_t PayloadPages(std::uint32_t stored_bytes) {
  return stored_bytes == 0 ? 1 : (stored_bytes - 1) / kDiskPageBytes + 1;
}
// How many pages the footer of a segment with that many payloads takes; at least 1.
constexpr std::uint32_t FooterPages(std::uint32_t row_count) {
  return row_count == 0 ? 1 : (row_count - 1) / kFooterRowsPerPage + 1;
}
// The most payloads, of a page each, beside which header and footer fit. `pages_per_segment` is at
// least 2.
std::uint32_t PayloadsMax(std::uint32_t pages_per_segment);
// The footer's first page; the last one is the segment's last. `row_count` is at most PayloadsMax.
std::uint32_t FooterFirstPage(std::uint32_t pages_per_segment, std::uint32_t row_count);

// Whether the rows lie one after another between the header and page `end_page` without overlap,
// with lengths that can be; kDataLoss names the first that does not.
Status CheckRows(std::span<const BlockRow> rows, std::uint32_t end_page);

}  // namespace kvferry::tiers
