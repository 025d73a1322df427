// A block's row: 64 bytes whose places are fixed, and flags that only later versions know.
#include "tiers/nvme/manifest_rows.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tiers/nvme/manifest.h"

namespace kvferry::tiers {
namespace {

BlockRow SomeRow() {
  BlockRow row;
  row.key.bytes.fill(std::byte{0x11});
  row.page = 0x01020304;
  row.stored_bytes = 0x05060708;
  row.raw_bytes = 0x090a0b0c;
  row.tenant = 0x0d0e;
  row.codec = 0x0f;
  row.flags = BlockRow::kProtected;
  row.checksum.bytes.fill(std::byte{0x22});
  return row;
}

TEST(BlockRowTest, HasItsFieldsWhereTheFormatSays) {
  const auto bytes = Encode(SomeRow());

  const std::array<unsigned, 16> middle = {0x04, 0x03, 0x02, 0x01, 0x08, 0x07, 0x06, 0x05,
                                           0x0c, 0x0b, 0x0a, 0x09, 0x0e, 0x0d, 0x0f, 0x01};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned expected = 0x22;
    if (i < 32) {
      expected = 0x11;
    } else if (i < 48) {
      expected = middle.at(i - 32);
    }
    EXPECT_EQ(std::to_integer<unsigned>(bytes.at(i)), expected) << "byte " << i;
  }
}

TEST(BlockRowTest, ComesBack) {
  const Result<BlockRow> decoded = DecodeBlockRow(Encode(SomeRow()));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, SomeRow());
}

TEST(BlockRowTest, IsRefusedWithFlagsOfALaterVersion) {
  BlockRow row = SomeRow();
  row.flags = 0x80;
  EXPECT_STATUS(DecodeBlockRow(Encode(row)), StatusCode::kDataLoss);
}

TEST(SegmentRowTest, ComesBackAndIsRefusedWithWhatIsUnknown) {
  SegmentRow row;
  row.life = {0x01020304, 0x05060708090a0b0c};
  row.state = SegmentState::kQuarantined;
  row.stream = SegmentStream::kProtected;
  row.used_pages = 0x0d0e0f10;
  row.live_bytes = 0x1112131415161718;
  row.opened_unix_ms = -2;
  const auto bytes = Encode(row);

  const Result<SegmentRow> decoded = DecodeSegmentRow(bytes);
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, row);
  EXPECT_EQ(bytes[0], std::byte{0x04});
  EXPECT_EQ(bytes[4], std::byte{0x10});
  EXPECT_EQ(bytes[8], std::byte{0x0c});
  EXPECT_EQ(bytes[16], std::byte{0x18});
  EXPECT_EQ(bytes[24], std::byte{0xfe});
  for (const std::size_t at :
       {std::size_t{32}, std::size_t{33}, std::size_t{34}, std::size_t{39}}) {
    auto changed = bytes;
    changed.at(at) = std::byte{9};
    EXPECT_STATUS(DecodeSegmentRow(changed), StatusCode::kDataLoss);
  }
}

// The scan's order is what makes one life's rows one run.
TEST(BlockPlaceTest, SortsBySegmentThenLifeThenPage) {
  const BlockPlace places[] = {{{1, 5}, 9}, {{1, 6}, 0}, {{1, 6}, 1}, {{2, 1}, 0}};
  EXPECT_TRUE(std::is_sorted(std::begin(places), std::end(places)));
}

TEST(ManifestBatchTest, IsEmptyAfterClear) {
  ManifestBatch batch;
  batch.life_deletes.push_back({1, 2});
  batch.block_puts.push_back({{1, 2}, SomeRow()});
  batch.meta_puts.push_back({"name", "value"});
  batch.is_synced = true;
  batch.status = Status::Error(StatusCode::kIoError, "failed");

  batch.Clear();

  EXPECT_TRUE(batch.life_deletes.empty() && batch.block_puts.empty() && batch.meta_puts.empty());
  EXPECT_FALSE(batch.is_synced);
  EXPECT_OK(batch.status);
}

}  // namespace
}  // namespace kvferry::tiers
