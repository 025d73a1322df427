// The byte layout of a segment's header.
#include "tiers/nvme/segment_header.h"

#include <string>
#include <utility>

#include "base/assert.h"
#include "tiers/nvme/disk_fields.h"

namespace kvferry::tiers {
namespace {

constexpr PageKind kKind = PageKind::kSegmentHeader;
constexpr std::int64_t kUnixMsMax = 253'402'300'799'999;  // The end of the year 9999.

SegmentHeaderRead Refuse(PageFinding finding, Status status) {
  return {.finding = finding, .status = std::move(status), .header = {}};
}

bool IsTimeGood(std::int64_t unix_ms) {
  return unix_ms >= 0 && unix_ms <= kUnixMsMax;
}

}  // namespace

void EncodeSegmentHeader(const SegmentHeader& header, DiskPage page) {
  KVFERRY_CHECK(IsTimeGood(header.opened_unix_ms));
  WriteFrame(page, kKind,
             {.version = kFormatVersion,
              .features = 0,
              .store = header.identity.store,
              .number = header.generation});
  FieldWriter writer(BodyOf(page));
  writer.Put(header.identity.segment);
  writer.Put(header.identity.drive_index);
  writer.Put(static_cast<std::uint64_t>(header.opened_unix_ms));
  writer.Put(static_cast<std::uint8_t>(header.stream));
  writer.PutZeros(writer.left());
  SealPage(page);
}

SegmentHeaderRead ReadSegmentHeader(std::span<const std::byte> bytes,
                                    const SegmentIdentity& expected) {
  FrameRead frame = ReadFrame(bytes, kKind);
  if (frame.finding != PageFinding::kGood) {
    return Refuse(frame.finding, std::move(frame.status));
  }
  FieldReader reader(BodyOf(bytes.first<kDiskPageBytes>()));
  SegmentHeader header;
  header.identity.store = frame.frame.store;
  header.identity.segment = reader.Take<std::uint32_t>();
  header.identity.drive_index = reader.Take<std::uint32_t>();
  header.generation = frame.frame.number;
  header.opened_unix_ms = static_cast<std::int64_t>(reader.Take<std::uint64_t>());
  const auto stream = reader.Take<std::uint8_t>();
  if (header.identity != expected) {
    return Refuse(
        PageFinding::kForeign,
        ForeignPage(kKind, "it is of segment " + std::to_string(header.identity.segment) +
                               " of drive " + std::to_string(header.identity.drive_index) +
                               " of store " + ToString(header.identity.store)));
  }
  if (stream > static_cast<std::uint8_t>(SegmentStream::kProtected) || !reader.TakeZeros()) {
    return Refuse(PageFinding::kNewer, NewerPage(kKind, "has an unknown stream or fields"));
  }
  if (!IsTimeGood(header.opened_unix_ms)) {
    return Refuse(PageFinding::kDamaged, DamagedPage(kKind, "its opening time cannot be"));
  }
  header.stream = static_cast<SegmentStream>(stream);
  return {.finding = PageFinding::kGood, .status = Status::Ok(), .header = header};
}

}  // namespace kvferry::tiers
