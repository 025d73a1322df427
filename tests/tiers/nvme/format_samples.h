// Samples of the NVMe tier's on-disk structures, and what tests do to their bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "tests/support/test_blocks.h"
#include "tiers/nvme/disk_fields.h"
#include "tiers/nvme/disk_page.h"
#include "tiers/nvme/segment_footer.h"
#include "tiers/nvme/segment_header.h"
#include "tiers/nvme/superblock.h"

namespace kvferry::testing {

using PageBytes = std::array<std::byte, tiers::kDiskPageBytes>;

inline tiers::StoreUuid SomeStore() {
  tiers::StoreUuid store;
  for (std::size_t i = 0; i < store.bytes.size(); ++i) {
    store.bytes.at(i) = static_cast<std::byte>(0x11 * i);
  }
  return store;
}

inline tiers::Superblock SomeSuperblock() {
  tiers::Superblock superblock;
  superblock.store = SomeStore();
  superblock.sequence = 7;
  superblock.drive_index = 1;
  superblock.drive_count = 3;
  superblock.layout = {.segment_bytes = 4 * kMiB, .segment_count = 1000};
  return superblock;
}

inline tiers::SegmentHeader SomeHeader() {
  tiers::SegmentHeader header;
  header.identity = {.store = SomeStore(), .drive_index = 1, .segment = 42};
  header.generation = 1234567890123;
  header.stream = tiers::SegmentStream::kProtected;
  header.opened_unix_ms = 1'790'000'000'123;
  return header;
}

inline tiers::FooterIdentity SomeFooterIdentity() {
  return {.segment = SomeHeader().identity,
          .generation = SomeHeader().generation,
          .pages_per_segment = 1024};
}

// `count` payloads that follow one another from page 1 on, of one to three pages.
inline std::vector<tiers::BlockRow> SomeRows(std::size_t count) {
  std::vector<tiers::BlockRow> rows;
  std::uint32_t page = 1;
  for (std::size_t i = 0; i < count; ++i) {
    tiers::BlockRow row;
    row.key = KeyOf(i);
    row.page = page;
    row.stored_bytes = static_cast<std::uint32_t>(1 + i * 5003 % (3 * tiers::kDiskPageBytes));
    row.codec = i % 2 == 0 ? 0 : 3;
    row.raw_bytes = row.codec == 0 ? row.stored_bytes : row.stored_bytes * 2;
    row.tenant = static_cast<std::uint16_t>(i);
    row.flags = i % 3 == 0 ? tiers::BlockRow::kProtected : std::uint8_t{0};
    row.checksum = ChecksumOf(BytesOf(i, 100), row.key);
    page += tiers::PayloadPages(row.stored_bytes);
    rows.push_back(row);
  }
  return rows;
}

inline PageBytes PageOf(const tiers::Superblock& superblock) {
  PageBytes page;
  page.fill(std::byte{0xcc});  // An encoder leaves no byte as it was.
  EncodeSuperblock(superblock, page);
  return page;
}

inline PageBytes PageOf(const tiers::SegmentHeader& header) {
  PageBytes page;
  page.fill(std::byte{0xcc});
  EncodeSegmentHeader(header, page);
  return page;
}

inline std::vector<std::byte> FooterOf(std::span<const tiers::BlockRow> rows,
                                       const tiers::FooterIdentity& identity) {
  const std::uint32_t pages = tiers::FooterPages(static_cast<std::uint32_t>(rows.size()));
  std::vector<std::byte> bytes(std::size_t{pages} * tiers::kDiskPageBytes, std::byte{0xcc});
  EncodeFooter(identity, rows, bytes);
  return bytes;
}

inline tiers::DiskPage PageAt(std::span<std::byte> bytes, std::size_t index) {
  return bytes.subspan(index * tiers::kDiskPageBytes).first<tiers::kDiskPageBytes>();
}

// Overwrites a field as a hostile or later writer would: with a checksum that matches.
template <class T>
void PutAndSeal(tiers::DiskPage page, std::size_t at, T value) {
  tiers::FieldWriter(page.subspan(at)).Put(value);
  tiers::SealPage(page);
}

}  // namespace kvferry::testing
