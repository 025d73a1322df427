// The byte layout of a block's row.
#include "tiers/nvme/manifest_rows.h"

#include <algorithm>
#include <concepts>
#include <string>

namespace kvferry::tiers {
namespace {

// Where each field starts.
constexpr std::size_t kPageAt = 32;
constexpr std::size_t kStoredBytesAt = 36;
constexpr std::size_t kRawBytesAt = 40;
constexpr std::size_t kTenantAt = 44;
constexpr std::size_t kCodecAt = 46;
constexpr std::size_t kFlagsAt = 47;
constexpr std::size_t kChecksumAt = 48;

template <std::unsigned_integral T>
void PutLittleEndian(std::span<std::byte> target, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    target[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <std::unsigned_integral T>
T TakeLittleEndian(std::span<const std::byte> source) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | (std::to_integer<T>(source[i]) << (8 * i)));
  }
  return value;
}

}  // namespace

std::array<std::byte, kBlockRowBytes> Encode(const BlockRow& row) {
  std::array<std::byte, kBlockRowBytes> bytes{};
  const std::span<std::byte> target(bytes);
  std::copy(row.key.bytes.begin(), row.key.bytes.end(), bytes.begin());
  PutLittleEndian(target.subspan(kPageAt), row.page);
  PutLittleEndian(target.subspan(kStoredBytesAt), row.stored_bytes);
  PutLittleEndian(target.subspan(kRawBytesAt), row.raw_bytes);
  PutLittleEndian(target.subspan(kTenantAt), row.tenant);
  bytes[kCodecAt] = std::byte{row.codec};
  bytes[kFlagsAt] = std::byte{row.flags};
  std::copy(row.checksum.bytes.begin(), row.checksum.bytes.end(), bytes.begin() + kChecksumAt);
  return bytes;
}

Result<BlockRow> DecodeBlockRow(std::span<const std::byte, kBlockRowBytes> bytes) {
  BlockRow row;
  std::copy_n(bytes.begin(), row.key.bytes.size(), row.key.bytes.begin());
  row.page = TakeLittleEndian<std::uint32_t>(bytes.subspan(kPageAt));
  row.stored_bytes = TakeLittleEndian<std::uint32_t>(bytes.subspan(kStoredBytesAt));
  row.raw_bytes = TakeLittleEndian<std::uint32_t>(bytes.subspan(kRawBytesAt));
  row.tenant = TakeLittleEndian<std::uint16_t>(bytes.subspan(kTenantAt));
  row.codec = std::to_integer<std::uint8_t>(bytes[kCodecAt]);
  row.flags = std::to_integer<std::uint8_t>(bytes[kFlagsAt]);
  std::copy_n(bytes.begin() + kChecksumAt, row.checksum.bytes.size(), row.checksum.bytes.begin());
  if ((row.flags & ~BlockRow::kKnownFlags) != 0) {
    return Status::Error(StatusCode::kDataLoss,
                         "a block's row has unknown flags " + std::to_string(row.flags));
  }
  return row;
}

}  // namespace kvferry::tiers
