// A small store on disk as an engine leaves it, made with the format's own functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"
#include "tests/tiers/nvme/drive_samples.h"
#include "tiers/nvme/drive_set.h"
#include "tiers/nvme/page_io.h"
#include "tiers/nvme/rocks_database.h"
#include "tiers/nvme/segment_footer.h"
#include "tiers/nvme/segment_header.h"

namespace kvferry::tiers::testing {

// Four segments of 1 MiB on each drive, of which the first three hold blocks of 1 byte to 52 KiB:
// segment 0 is sealed, 1 sealed and protected, 2 open, 3 clean with an old header, the others never
// used. Whatever is in it follows from the number of drives.
class SampleStore {
 public:
  static constexpr std::uint32_t kBlocksPerSegment = 12;
  static constexpr std::int64_t kOpenedUnixMs = 1'790'000'000'000;

  explicit SampleStore(std::vector<std::string> paths) : paths_(std::move(paths)) {
    DriveSetOptions options = SmallStore(paths_, 4);
    options.new_store = {};
    options.new_store.bytes.fill(std::byte{0x5a});
    Result<std::unique_ptr<DriveSet>> drives = DriveSet::Open(options);
    EXPECT_OK(drives.status());
    drives_ = std::move(*drives);
    Fill(0, SegmentState::kSealed, SegmentStream::kNormal);
    Fill(1, SegmentState::kSealed, SegmentStream::kProtected);
    Fill(2, SegmentState::kOpen, SegmentStream::kNormal);
    WriteHeader(RowOf(3, SegmentState::kClean, SegmentStream::kNormal));
    segments.push_back(RowOf(3, SegmentState::kClean, SegmentStream::kNormal));
    ManifestBatch batch;
    batch.segment_puts = segments;
    batch.block_puts = blocks;
    batch.meta_puts = {
        {"stats/drives", R"([{"p99_us": 210}])"}, {"stats/note", "no JSON"}, {"tenants", "x"}};
    Commit(batch);
    drives_.reset();
  }

  // Changes the manifest behind the store's back.
  void Commit(ManifestBatch& batch) const {
    batch.is_synced = true;
    const Result<std::unique_ptr<RocksDatabase>> database = RocksDatabase::Open(
        {.folder = manifest(), .write_buffer_bytes = 64 * kKiB, .file_system = nullptr});
    ASSERT_OK(database.status());
    ASSERT_OK((*database)->Write(batch));
  }
  // All block rows that the manifest has.
  std::vector<PlacedRow> ReadBlocks() const {
    const Result<std::unique_ptr<RocksDatabase>> database =
        RocksDatabase::Open({.folder = manifest(), .is_read_only = true, .file_system = nullptr});
    EXPECT_OK(database.status());
    EXPECT_OK((*database)->StartScan(nullptr));
    Result<RocksDatabase::ScanPiece> piece = (*database)->ScanNext(1000);
    EXPECT_OK(piece.status());
    EXPECT_TRUE(piece->is_last);
    return piece->rows;
  }

  const std::vector<std::string>& paths() const { return paths_; }
  std::string manifest() const { return paths_.front() + "/manifest"; }
  std::string FileOf(std::uint32_t segment) const {
    return BlocksFileIn(paths_[segment % paths_.size()]);
  }
  std::uint64_t OffsetOf(std::uint32_t segment, std::uint32_t page) const {
    const auto local = static_cast<std::uint32_t>(segment / paths_.size());
    return StoreLayout{.segment_bytes = kMiB, .segment_count = 4}.PageOffset(local, page);
  }
  // Flips a byte of a payload.
  void Damage(const PlacedRow& placed) const {
    const std::uint64_t at =
        OffsetOf(placed.life.segment, placed.row.page) + placed.row.stored_bytes / 2;
    std::string byte = ReadBack(FileOf(placed.life.segment), at, 1);
    byte[0] = static_cast<char>(byte[0] ^ 1);
    Overwrite(FileOf(placed.life.segment), at, byte);
  }

  std::vector<SegmentRow> segments;
  std::vector<PlacedRow> blocks;  // In the order of their places.

 private:
  static SegmentRow RowOf(std::uint32_t segment, SegmentState state, SegmentStream stream) {
    SegmentRow row;
    row.life = {segment, segment + 10};
    row.state = state;
    row.stream = stream;
    row.used_pages = 1;
    row.opened_unix_ms = kOpenedUnixMs + segment;
    return row;
  }
  SegmentIdentity IdentityOf(std::uint32_t segment) const {
    return {.store = drives_->store(),
            .drive_index = segment % drives_->drive_count(),
            .segment = segment / drives_->drive_count()};
  }
  void Write(std::uint32_t segment, std::uint32_t page, std::span<const std::byte> bytes) const {
    std::vector<AlignedPage> pages((bytes.size() + kDiskPageBytes - 1) / kDiskPageBytes);
    const auto target = std::as_writable_bytes(std::span<AlignedPage>(pages));
    std::copy(bytes.begin(), bytes.end(), target.begin());
    ASSERT_EQ(
        WriteAt(drives_->fds()[segment % drives_->drive_count()], target, OffsetOf(segment, page)),
        0);
  }
  void WriteHeader(const SegmentRow& row) const {
    AlignedPage page;
    EncodeSegmentHeader({.identity = IdentityOf(row.life.segment),
                         .generation = row.life.generation,
                         .stream = row.stream,
                         .opened_unix_ms = row.opened_unix_ms},
                        page.bytes);
    Write(row.life.segment, 0, page.bytes);
  }
  void Fill(std::uint32_t segment, SegmentState state, SegmentStream stream) {
    SegmentRow segment_row = RowOf(segment, state, stream);
    WriteHeader(segment_row);
    std::vector<BlockRow> rows;
    for (std::uint32_t i = 0; i < kBlocksPerSegment; ++i) {
      const std::uint64_t seed = segment * 100 + i;
      const std::vector<std::byte> bytes =
          kvferry::testing::BytesOf(seed, 1 + 4'800 * std::size_t{i});
      BlockRow row;
      row.key = kvferry::testing::KeyOf(seed);
      row.page = segment_row.used_pages;
      row.stored_bytes = static_cast<std::uint32_t>(bytes.size());
      row.raw_bytes = row.stored_bytes;
      row.tenant = static_cast<std::uint16_t>(i % 2);
      row.flags = stream == SegmentStream::kProtected ? BlockRow::kProtected : std::uint8_t{0};
      row.checksum = ChecksumOf(bytes, row.key);
      Write(segment, row.page, bytes);
      segment_row.used_pages += PayloadPages(row.stored_bytes);
      segment_row.live_bytes += row.stored_bytes;
      rows.push_back(row);
      blocks.push_back({segment_row.life, row});
    }
    if (state == SegmentState::kSealed) {
      AlignedPage footer;
      EncodeFooter({.segment = IdentityOf(segment),
                    .generation = segment_row.life.generation,
                    .pages_per_segment = 256},
                   rows, footer.bytes);
      Write(segment, 255, footer.bytes);
    }
    segments.push_back(segment_row);
  }

  std::vector<std::string> paths_;
  std::unique_ptr<DriveSet> drives_;
};

}  // namespace kvferry::tiers::testing
