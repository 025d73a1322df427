// The byte layouts of the rows of blocks and of segments.
#include "tiers/nvme/manifest_rows.h"

#include <string>

#include "tiers/nvme/disk_fields.h"

namespace kvferry::tiers {

std::array<std::byte, kBlockRowBytes> Encode(const BlockRow& row) {
  std::array<std::byte, kBlockRowBytes> bytes{};
  FieldWriter writer(bytes);
  writer.PutBytes(row.key.bytes);
  writer.Put(row.page);
  writer.Put(row.stored_bytes);
  writer.Put(row.raw_bytes);
  writer.Put(row.tenant);
  writer.Put(row.codec);
  writer.Put(row.flags);
  writer.PutBytes(row.checksum.bytes);
  return bytes;
}

Result<BlockRow> DecodeBlockRow(std::span<const std::byte, kBlockRowBytes> bytes) {
  FieldReader reader(bytes);
  BlockRow row;
  reader.TakeBytes(row.key.bytes);
  row.page = reader.Take<std::uint32_t>();
  row.stored_bytes = reader.Take<std::uint32_t>();
  row.raw_bytes = reader.Take<std::uint32_t>();
  row.tenant = reader.Take<std::uint16_t>();
  row.codec = reader.Take<std::uint8_t>();
  row.flags = reader.Take<std::uint8_t>();
  reader.TakeBytes(row.checksum.bytes);
  if ((row.flags & ~BlockRow::kKnownFlags) != 0) {
    return Status::Error(StatusCode::kDataLoss,
                         "a block's row has unknown flags " + std::to_string(row.flags));
  }
  return row;
}

std::array<std::byte, kSegmentRowBytes> Encode(const SegmentRow& row) {
  std::array<std::byte, kSegmentRowBytes> bytes{};
  FieldWriter writer(bytes);
  writer.Put(row.life.segment);
  writer.Put(row.used_pages);
  writer.Put(row.life.generation);
  writer.Put(row.live_bytes);
  writer.Put(static_cast<std::uint64_t>(row.opened_unix_ms));
  writer.Put(static_cast<std::uint8_t>(row.state));
  writer.Put(static_cast<std::uint8_t>(row.stream));
  return bytes;
}

Result<SegmentRow> DecodeSegmentRow(std::span<const std::byte, kSegmentRowBytes> bytes) {
  FieldReader reader(bytes);
  SegmentRow row;
  row.life.segment = reader.Take<std::uint32_t>();
  row.used_pages = reader.Take<std::uint32_t>();
  row.life.generation = reader.Take<std::uint64_t>();
  row.live_bytes = reader.Take<std::uint64_t>();
  row.opened_unix_ms = static_cast<std::int64_t>(reader.Take<std::uint64_t>());
  const auto state = reader.Take<std::uint8_t>();
  const auto stream = reader.Take<std::uint8_t>();
  if (state > static_cast<std::uint8_t>(SegmentState::kQuarantined) ||
      stream > static_cast<std::uint8_t>(SegmentStream::kProtected) || !reader.TakeZeros()) {
    return Status::Error(StatusCode::kDataLoss, "a segment's row is not of this version");
  }
  row.state = static_cast<SegmentState>(state);
  row.stream = static_cast<SegmentStream>(stream);
  return row;
}

}  // namespace kvferry::tiers
