// The byte layout of a block's row.
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

}  // namespace kvferry::tiers
