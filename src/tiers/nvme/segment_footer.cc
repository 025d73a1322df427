// The byte layout of a segment's footer.
#include "tiers/nvme/segment_footer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "tiers/nvme/disk_fields.h"
#include "tiers/nvme/store_layout.h"

namespace kvferry::tiers {
namespace {

constexpr PageKind kKind = PageKind::kSegmentFooter;
constexpr std::uint64_t kTableSeed = 0x656c626174666b76;  // "vkftable", little-endian.
constexpr std::size_t kReservedBytes = 32;  // Between the table's checksum and the rows.

constexpr std::size_t kBytesBeforeRows =
    5 * sizeof(std::uint32_t) + sizeof(std::uint32_t) + sizeof(Checksum) + kReservedBytes;
static_assert(kPageBodyAt + kBytesBeforeRows + kFooterRowsPerPage * kBlockRowBytes ==
              kPageChecksumAt);

// The numbers of one page, before its rows.
struct PageNumbers {
  SegmentIdentity segment;
  std::uint32_t position = 0;
  std::uint32_t page_count = 0;
  std::uint32_t row_count = 0;
  Checksum table;

  std::uint32_t first_row() const { return position * kFooterRowsPerPage; }
  std::uint32_t rows_here() const { return std::min(kFooterRowsPerPage, row_count - first_row()); }
};

FooterPageRead RefusePage(PageFinding finding, Status status) {
  return {.finding = finding, .status = std::move(status), .page = {}};
}

FooterRead Refuse(PageFinding finding, Status status) {
  return {.finding = finding,
          .status = std::move(status),
          .rows = {},
          .refused_rows = 0,
          .lost_pages = 0};
}

void PutPage(const FooterIdentity& identity,
             const PageNumbers& numbers,
             std::span<const BlockRow> rows,
             DiskPage page) {
  WriteFrame(page, kKind,
             {.version = kFormatVersion,
              .features = 0,
              .store = identity.segment.store,
              .number = identity.generation});
  FieldWriter writer(BodyOf(page));
  writer.Put(numbers.segment.segment);
  writer.Put(numbers.segment.drive_index);
  writer.Put(numbers.position);
  writer.Put(numbers.page_count);
  writer.Put(numbers.row_count);
  writer.PutZeros(sizeof(std::uint32_t));
  writer.PutBytes(numbers.table.bytes);
  writer.PutZeros(kReservedBytes);
  for (const BlockRow& row : rows.subspan(numbers.first_row(), numbers.rows_here())) {
    writer.PutBytes(Encode(row));
  }
  writer.PutZeros(writer.left());
  SealPage(page);
}

// Whether the page's own numbers fit one another and the segment.
bool AreConsistent(const PageNumbers& numbers, std::uint32_t pages_per_segment) {
  return numbers.row_count <= PayloadsMax(pages_per_segment) &&
         numbers.page_count == FooterPages(numbers.row_count) &&
         numbers.position < numbers.page_count;
}

// Takes the page's rows; false when bytes that must be zero are not.
bool TakeRows(FieldReader& reader, const PageNumbers& numbers, FooterPage& page) {
  std::array<std::byte, kBlockRowBytes> bytes{};
  page.rows.reserve(numbers.rows_here());
  for (std::uint32_t i = 0; i < numbers.rows_here(); ++i) {
    reader.TakeBytes(bytes);
    if (const Result<BlockRow> row = DecodeBlockRow(bytes); row.has_value()) {
      page.rows.push_back(*row);
    } else {
      ++page.refused_rows;
    }
  }
  return reader.TakeZeros();
}

Checksum TableChecksum(std::span<const BlockRow> rows) {
  ChecksumStream stream(kTableSeed);
  for (const BlockRow& row : rows) {
    stream.Update(Encode(row));
  }
  return stream.Finish();
}

PageFinding FindingOfIdentity(const FrameRead& frame,
                              const PageNumbers& numbers,
                              const FooterIdentity& expected) {
  if (numbers.segment != expected.segment) {
    return PageFinding::kForeign;
  }
  return frame.frame.number == expected.generation ? PageFinding::kGood : PageFinding::kStale;
}

Status WrongIdentity(PageFinding finding, const FrameRead& frame, const PageNumbers& numbers) {
  if (finding == PageFinding::kStale) {
    return Status::Error(StatusCode::kDataLoss,
                         "the segment footer is of generation " +
                             std::to_string(frame.frame.number) +
                             ", another life of the segment: the segment counts as not sealed");
  }
  return ForeignPage(kKind, "it is of segment " + std::to_string(numbers.segment.segment) +
                                " of drive " + std::to_string(numbers.segment.drive_index) +
                                " of store " + ToString(numbers.segment.store));
}

// Adds the page's rows if it belongs to the footer whose last page is `last`.
void Join(const FooterPageRead& read,
          std::uint32_t position,
          const FooterPage& last,
          FooterRead& footer) {
  const FooterPage& page = read.page;
  if (read.finding != PageFinding::kGood || page.position != position ||
      page.row_count != last.row_count || page.table != last.table) {
    ++footer.lost_pages;
    return;
  }
  footer.rows.insert(footer.rows.end(), page.rows.begin(), page.rows.end());
  footer.refused_rows += page.refused_rows;
}

}  // namespace

void EncodeFooter(const FooterIdentity& identity,
                  std::span<const BlockRow> rows,
                  std::span<std::byte> target) {
  const auto row_count = Narrow<std::uint32_t>(rows.size());
  const std::uint32_t end_page = FooterFirstPage(identity.pages_per_segment, row_count);
  KVFERRY_CHECK(CheckRows(rows, end_page).ok());
  PageNumbers numbers;
  numbers.segment = identity.segment;
  numbers.page_count = FooterPages(row_count);
  numbers.row_count = row_count;
  numbers.table = TableChecksum(rows);
  KVFERRY_CHECK(target.size() == std::size_t{numbers.page_count} * kDiskPageBytes);
  for (; numbers.position < numbers.page_count; ++numbers.position) {
    const std::size_t at = std::size_t{numbers.position} * kDiskPageBytes;
    PutPage(identity, numbers, rows, target.subspan(at).first<kDiskPageBytes>());
  }
}

FooterPageRead ReadFooterPage(std::span<const std::byte> bytes, const FooterIdentity& expected) {
  FrameRead frame = ReadFrame(bytes, kKind);
  if (frame.finding != PageFinding::kGood) {
    return RefusePage(frame.finding, std::move(frame.status));
  }
  FieldReader reader(BodyOf(bytes.first<kDiskPageBytes>()));
  PageNumbers numbers;
  numbers.segment.store = frame.frame.store;
  numbers.segment.segment = reader.Take<std::uint32_t>();
  numbers.segment.drive_index = reader.Take<std::uint32_t>();
  numbers.position = reader.Take<std::uint32_t>();
  numbers.page_count = reader.Take<std::uint32_t>();
  numbers.row_count = reader.Take<std::uint32_t>();
  bool are_zeros = reader.TakeZeros(sizeof(std::uint32_t));
  reader.TakeBytes(numbers.table.bytes);
  are_zeros = reader.TakeZeros(kReservedBytes) && are_zeros;
  const PageFinding finding = FindingOfIdentity(frame, numbers, expected);
  if (finding != PageFinding::kGood) {
    return RefusePage(finding, WrongIdentity(finding, frame, numbers));
  }
  if (!AreConsistent(numbers, expected.pages_per_segment)) {
    return RefusePage(PageFinding::kDamaged, DamagedPage(kKind, "its counts cannot be"));
  }
  FooterPage page;
  page.position = numbers.position;
  page.page_count = numbers.page_count;
  page.row_count = numbers.row_count;
  page.table = numbers.table;
  if (!TakeRows(reader, numbers, page) || !are_zeros) {
    return RefusePage(PageFinding::kNewer, NewerPage(kKind, "has unknown fields"));
  }
  const std::uint32_t end_page = FooterFirstPage(expected.pages_per_segment, numbers.row_count);
  if (const Status rows = CheckRows(page.rows, end_page); !rows.ok()) {
    return RefusePage(PageFinding::kDamaged, DamagedPage(kKind, std::string(rows.message())));
  }
  return {.finding = PageFinding::kGood, .status = Status::Ok(), .page = std::move(page)};
}

FooterRead ReadFooter(std::span<const std::byte> bytes, const FooterIdentity& expected) {
  const std::size_t page_count = bytes.size() / kDiskPageBytes;
  if (page_count == 0 || bytes.size() % kDiskPageBytes != 0) {
    return Refuse(PageFinding::kDamaged,
                  DamagedPage(kKind, std::to_string(bytes.size()) + " bytes are no whole pages"));
  }
  FooterPageRead last = ReadFooterPage(bytes.last(kDiskPageBytes), expected);
  if (last.finding != PageFinding::kGood) {
    return Refuse(last.finding, std::move(last.status));
  }
  if (last.page.page_count != page_count || last.page.position + 1 != page_count) {
    return Refuse(
        PageFinding::kDamaged,
        DamagedPage(kKind, "its last page is number " + std::to_string(last.page.position) +
                               " of " + std::to_string(last.page.page_count) + " where " +
                               std::to_string(page_count) + " are expected"));
  }
  FooterRead footer = Refuse(PageFinding::kGood, Status::Ok());
  footer.rows.reserve(last.page.row_count);
  for (std::uint32_t i = 0; i + 1 < page_count; ++i) {
    const auto page = bytes.subspan(std::size_t{i} * kDiskPageBytes, kDiskPageBytes);
    Join(ReadFooterPage(page, expected), i, last.page, footer);
  }
  Join(last, last.page.position, last.page, footer);
  const std::uint32_t end_page = FooterFirstPage(expected.pages_per_segment, last.page.row_count);
  if (const Status rows = CheckRows(footer.rows, end_page); !rows.ok()) {
    return Refuse(PageFinding::kDamaged, DamagedPage(kKind, std::string(rows.message())));
  }
  if (footer.lost_pages == 0 && footer.refused_rows == 0 &&
      TableChecksum(footer.rows) != last.page.table) {
    return Refuse(PageFinding::kDamaged, DamagedPage(kKind, "its rows do not match its checksum"));
  }
  return footer;
}

}  // namespace kvferry::tiers
