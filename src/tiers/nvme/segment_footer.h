// SegmentFooter: the table of a sealed segment's payloads, from which a lost manifest is rebuilt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/status.h"

#include "base/checksum.h"
#include "tiers/nvme/disk_page.h"
#include "tiers/nvme/manifest_rows.h"
#include "tiers/nvme/segment_header.h"

namespace kvferry::tiers {

// Whose footer it is, and how much room it describes.
struct FooterIdentity {
  SegmentIdentity segment;
  std::uint64_t generation = 0;         // The header's.
  std::uint32_t pages_per_segment = 0;  // Of the store's layout.
};

// Writes the footer of these payloads, which come in the order of their pages, do not overlap and
// end before FooterFirstPage (CheckRows). `target` is FooterPages(rows.size()) pages long and is
// what the segment's last pages become.
void EncodeFooter(const FooterIdentity& identity,
                  std::span<const BlockRow> rows,
                  std::span<std::byte> target);

// What one page of a footer says. The rows are within the segment; whether they overlap those of
// other pages is not known yet.
struct FooterPage {
  std::uint32_t position = 0;
  std::uint32_t page_count = 0;
  std::uint32_t row_count = 0;  // Of the whole footer.
  Checksum table;               // Over all rows; the same in every page of one footer.
  std::vector<BlockRow> rows;
  std::uint32_t refused_rows = 0;  // With flags of later versions; left out of `rows`.
};
struct FooterPageRead {
  // kStale: of another generation. kForeign: of another store, drive or segment, or nothing of
  // ours, as in a segment that is not sealed. kBlank: nothing was written there.
  PageFinding finding = PageFinding::kDamaged;
  Status status;
  FooterPage page;  // For kGood.
};
// A page of the footer; the one to begin with is the segment's last, whose page_count tells how
// many pages before it are the others. `bytes` may be anything of any length.
FooterPageRead ReadFooterPage(std::span<const std::byte> bytes, const FooterIdentity& expected);

struct FooterRead {
  PageFinding finding = PageFinding::kDamaged;  // As the last page's; kDamaged also for overlaps.
  Status status;                                // Ok for kGood, else the reason.
  // For kGood: the rows in the order of their pages, without overlap.
  std::vector<BlockRow> rows;
  std::uint32_t refused_rows = 0;  // With flags of later versions.
  std::uint32_t lost_pages = 0;    // Damaged pages but the last; their rows are missing.
};
// A whole footer: the segment's last pages, as many as its last one counts. `bytes` may be anything
// of any length.
FooterRead ReadFooter(std::span<const std::byte> bytes, const FooterIdentity& expected);

}  // namespace kvferry::tiers
