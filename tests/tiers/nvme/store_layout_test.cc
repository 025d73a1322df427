// The layout of a drive: chosen sizes, counts from capacities, and numbers that cannot be.
#include "tiers/nvme/store_layout.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

StoreLayout LayoutOf(std::uint64_t capacity_bytes, std::uint64_t block_bytes_max = kMiB) {
  const Result<StoreLayout> layout = LayOut(
      {.capacity_bytes = capacity_bytes, .segment_bytes = 0, .block_bytes_max = block_bytes_max});
  EXPECT_OK(layout);
  return layout.has_value() ? *layout : StoreLayout{};
}

TEST(StoreLayoutTest, ChoosesSegmentsByTheCapacity) {
  EXPECT_EQ(LayoutOf(kTiB), (StoreLayout{256 * kMiB, 4095})) << "the first MiB costs a segment";
  EXPECT_EQ(LayoutOf(kGiB), (StoreLayout{16 * kMiB, 63}));
  EXPECT_EQ(LayoutOf(64 * kMiB, 4096), (StoreLayout{kMiB, 63}));
  EXPECT_EQ(LayoutOf(64 * kMiB + 5000, 4096), (StoreLayout{kMiB, 63}));
}

TEST(StoreLayoutTest, HasRoomForFourOfTheLongestBlocks) {
  EXPECT_EQ(LayoutOf(64 * kMiB, 4 * kMiB).segment_bytes, 17 * kMiB);
  EXPECT_EQ(LayoutOf(8 * kGiB, 255 * kMiB).segment_bytes, 1021 * kMiB);
  // 252 KiB four times leave four pages of a MiB; 255 KiB leave one, and two are needed.
  EXPECT_EQ(LayoutOf(64 * kMiB, 252 * kKiB).segment_bytes, kMiB);
  EXPECT_EQ(LayoutOf(64 * kMiB, 255 * kKiB).segment_bytes, 2 * kMiB);
}

TEST(StoreLayoutTest, RefusesWhatDoesNotFitAndSaysWhatWould) {
  const auto status_of = [](std::uint64_t capacity, std::uint64_t segment, std::uint64_t block) {
    return LayOut({.capacity_bytes = capacity, .segment_bytes = segment, .block_bytes_max = block})
        .status();
  };
  EXPECT_OK(status_of(3 * kMiB, kMiB, 4096));
  const Status small = status_of(3 * kMiB - 1, kMiB, 4096);
  EXPECT_STATUS(small, StatusCode::kInvalidArgument);
  EXPECT_NE(small.message().find("at least 3.00 MiB"), std::string_view::npos) << small.ToString();
  for (const std::uint64_t capacity : {std::uint64_t{0}, kMiB, kMiB + 1}) {
    EXPECT_STATUS(status_of(capacity, 0, 4096), StatusCode::kInvalidArgument);
  }
  for (const std::uint64_t segment : {kMiB - 4096, kMiB + 4096, kGiB + kMiB, ~std::uint64_t{0}}) {
    EXPECT_STATUS(status_of(kTiB, segment, 4096), StatusCode::kInvalidArgument);
  }
  EXPECT_STATUS(status_of(kTiB, 4 * kMiB, kMiB), StatusCode::kInvalidArgument);
  for (const std::uint64_t block : {std::uint64_t{0}, kBlockBytesMax + 1, ~std::uint64_t{0}}) {
    EXPECT_STATUS(status_of(kTiB, 0, block), StatusCode::kInvalidArgument);
  }
  EXPECT_OK(status_of(~std::uint64_t{0}, 0, 4096));
}

TEST(DataBytesTest, LeavesTheManifestItsPart) {
  EXPECT_EQ(DataBytesOf(0), 0U);
  EXPECT_EQ(DataBytesOf(8 * kMiB), 7 * kMiB);
  EXPECT_EQ(DataBytesOf(512 * kMiB), 448 * kMiB);
  EXPECT_EQ(DataBytesOf(kGiB), kGiB - 64 * kMiB);
  EXPECT_EQ(DataBytesOf(16 * kGiB), 16 * kGiB - 64 * kMiB);
  EXPECT_EQ(DataBytesOf(kTiB), kTiB - 4 * kGiB);
}

// A capacity that was told to be enough must be.
TEST(CapacityForTest, IsEnoughAndAMibibyteTooManyAtMost) {
  Random random(1);
  for (int round = 0; round < 10'000; ++round) {
    const std::uint64_t data = random.Below(std::uint64_t{1} << random.Between(1, 60)) + 1;
    const std::uint64_t capacity = CapacityFor(data);
    EXPECT_GE(DataBytesOf(capacity), data);
    EXPECT_EQ(capacity % kMiB, 0U);
    if (capacity > 2 * kMiB) {
      EXPECT_LT(DataBytesOf(capacity - 2 * kMiB), data) << data;
    }
  }
}

TEST(StoreLayoutTest, PlacesPagesOneAfterAnotherToTheEnd) {
  const StoreLayout layout{2 * kMiB, 5};
  EXPECT_EQ(layout.PageOffset(0, 0), kMiB);
  EXPECT_EQ(layout.PageOffset(0, 511) + kDiskPageBytes, layout.PageOffset(1, 0));
  EXPECT_EQ(layout.PageOffset(4, 511) + kDiskPageBytes, layout.end_bytes());
  const StoreLayout largest{kSegmentBytesMax, kSegmentCountMax};
  ASSERT_OK(CheckLayout(largest));
  EXPECT_EQ(largest.PageOffset(kSegmentCountMax - 1, 262'143) + kDiskPageBytes,
            largest.end_bytes());
}

TEST(StoreLayoutTest, FitsADriveThatIsLongEnough) {
  const StoreLayout layout{kMiB, 10};
  EXPECT_OK(CheckFits(layout, 11 * kMiB));
  EXPECT_STATUS(CheckFits(layout, 11 * kMiB - 1), StatusCode::kDataLoss);
  EXPECT_STATUS(CheckFits(layout, 0), StatusCode::kDataLoss);
  EXPECT_STATUS(CheckFits({~std::uint64_t{0}, ~std::uint32_t{0}}, 11 * kMiB),
                StatusCode::kDataLoss);
}

TEST(FooterPagesTest, AreAsFewAsHoldTheRowsAndTheMostRowsFillTheSegment) {
  EXPECT_EQ(FooterPages(0), 1U);
  EXPECT_EQ(FooterPages(62), 1U);
  EXPECT_EQ(FooterPages(63), 2U);
  for (const std::uint32_t pages : {2U, 3U, 64U, 65U, 66U, 127U, 256U, 65'536U, 262'144U}) {
    const std::uint32_t rows = PayloadsMax(pages);
    EXPECT_LE(1 + rows + FooterPages(rows), pages) << pages;
    EXPECT_GT(1 + rows + 1 + FooterPages(rows + 1), pages) << pages;
    EXPECT_EQ(FooterFirstPage(pages, rows), pages - FooterPages(rows));
  }
  EXPECT_EQ(PayloadsMax(256), 250U);
  EXPECT_EQ(PayloadsMax(262'144), 257'982U);
}

TEST(CheckRowsTest, FindsOverlapsGapsAreFine) {
  BlockRow row;
  row.stored_bytes = row.raw_bytes = 2 * kDiskPageBytes;
  const auto status_of = [&row](const std::vector<std::uint32_t>& pages) {
    std::vector<BlockRow> rows;
    for (const std::uint32_t page : pages) {
      row.page = page;
      rows.push_back(row);
    }
    return CheckRows(rows, 10);
  };
  EXPECT_OK(status_of({}));
  EXPECT_OK(status_of({1, 3, 8}));
  EXPECT_STATUS(status_of({0}), StatusCode::kDataLoss);  // The header's.
  EXPECT_STATUS(status_of({1, 2}), StatusCode::kDataLoss);
  EXPECT_STATUS(status_of({5, 1}), StatusCode::kDataLoss);
  EXPECT_STATUS(status_of({9}), StatusCode::kDataLoss);  // The footer's.
  EXPECT_STATUS(status_of({~0U}), StatusCode::kDataLoss);
}

TEST(CheckRowsTest, FindsLengthsThatCannotBe) {
  const auto status_of = [](std::uint32_t stored, std::uint32_t raw, std::uint8_t codec) {
    BlockRow row;
    row.page = 1;
    row.stored_bytes = stored;
    row.raw_bytes = raw;
    row.codec = codec;
    return CheckRows(std::span(&row, 1), 262'143);
  };
  EXPECT_OK(status_of(5, 5, 0));
  EXPECT_OK(status_of(5, 10, 1));
  EXPECT_STATUS(status_of(0, 5, 1), StatusCode::kDataLoss);
  EXPECT_STATUS(status_of(5, 0, 1), StatusCode::kDataLoss);
  EXPECT_STATUS(status_of(5, 10, 0), StatusCode::kDataLoss);
  EXPECT_STATUS(status_of(5, ~0U, 1), StatusCode::kDataLoss);
  EXPECT_STATUS(status_of(~0U, 5, 1), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace kvferry::tiers
