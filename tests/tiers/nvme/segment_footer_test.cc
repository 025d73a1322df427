// The segment footer: what comes back of its rows after rot, loss, mix-ups and hostile numbers.
#include "tiers/nvme/segment_footer.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/format_samples.h"

namespace kvferry::tiers {
namespace {

using testing::FooterOf;
using testing::PageAt;
using testing::PutAndSeal;
using testing::SomeFooterIdentity;
using testing::SomeRows;

constexpr std::size_t kRowsAt = 112;

FooterRead Read(std::span<const std::byte> bytes) {
  return ReadFooter(bytes, SomeFooterIdentity());
}

TEST(SegmentFooterTest, ComesBackAtAnyNumberOfRows) {
  for (const std::size_t count : {0U, 1U, 4U, 61U, 62U, 63U, 124U, 125U, 300U}) {
    const auto rows = SomeRows(count);
    const FooterRead read = Read(FooterOf(rows, SomeFooterIdentity()));
    ASSERT_OK(read.status);
    EXPECT_EQ(read.finding, PageFinding::kGood);
    EXPECT_EQ(read.rows, rows);
    EXPECT_EQ(read.lost_pages + read.refused_rows, 0U);
  }
}

TEST(SegmentFooterTest, FillsASegmentOfSinglePages) {
  FooterIdentity identity = SomeFooterIdentity();
  identity.pages_per_segment = 256;  // The smallest segment.
  std::vector<BlockRow> rows = SomeRows(PayloadsMax(256));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].page = static_cast<std::uint32_t>(i + 1);
    rows[i].codec = 0;
    rows[i].stored_bytes = rows[i].raw_bytes = kDiskPageBytes;
  }
  const FooterRead read = ReadFooter(FooterOf(rows, identity), identity);
  ASSERT_OK(read.status);
  EXPECT_EQ(read.rows, rows);
}

// The reader starts with nothing but the segment's last page.
TEST(SegmentFooterTest, TellsItsLengthInItsLastPage) {
  std::vector<std::byte> bytes = FooterOf(SomeRows(130), SomeFooterIdentity());
  const FooterPageRead last = ReadFooterPage(PageAt(bytes, 2), SomeFooterIdentity());
  ASSERT_OK(last.status);
  EXPECT_EQ(last.page.position, 2U);
  EXPECT_EQ(last.page.page_count, 3U);
  EXPECT_EQ(last.page.row_count, 130U);
  EXPECT_EQ(last.page.rows.size(), 130U - 2 * kFooterRowsPerPage);
}

// Either nothing is returned, or only rows that were written.
TEST(SegmentFooterTest, ReturnsNoRowThatWasNotWrittenWithAnyByteFlipped) {
  const auto rows = SomeRows(70);
  const std::vector<std::byte> good = FooterOf(rows, SomeFooterIdentity());
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> flipped = good;
    flipped[at] ^= std::byte{0x10};
    const FooterRead read = Read(flipped);
    if (at < kDiskPageBytes) {
      ASSERT_EQ(read.finding, PageFinding::kGood) << "byte " << at;
      ASSERT_EQ(read.lost_pages, 1U);
      ASSERT_TRUE(std::equal(read.rows.begin(), read.rows.end(), rows.begin() + 62, rows.end()));
    } else {
      ASSERT_NE(read.finding, PageFinding::kGood) << "byte " << at;
      ASSERT_TRUE(read.rows.empty());
    }
  }
}

TEST(SegmentFooterTest, IsDamagedIfCutShortOrTooLong) {
  const std::vector<std::byte> good = FooterOf(SomeRows(130), SomeFooterIdentity());
  const std::span<const std::byte> all(good);
  EXPECT_EQ(Read({}).finding, PageFinding::kDamaged);
  for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, good.size() - 1}) {
    EXPECT_EQ(Read(all.first(size)).finding, PageFinding::kDamaged) << size;
    EXPECT_EQ(Read(all.last(size)).finding, PageFinding::kDamaged) << size;
  }
  EXPECT_EQ(Read(all.first(8192)).finding, PageFinding::kDamaged) << "without its last page";
  EXPECT_EQ(Read(all.last(8192)).finding, PageFinding::kDamaged) << "without its first page";
  std::vector<std::byte> longer(4096);
  longer.insert(longer.end(), good.begin(), good.end());
  EXPECT_EQ(Read(longer).finding, PageFinding::kDamaged);
}

TEST(SegmentFooterTest, IsStaleInAnotherLifeAndForeignElsewhere) {
  const std::vector<std::byte> good = FooterOf(SomeRows(5), SomeFooterIdentity());
  FooterIdentity other = SomeFooterIdentity();
  other.generation += 1;
  EXPECT_EQ(ReadFooter(good, other).finding, PageFinding::kStale);
  other = SomeFooterIdentity();
  other.segment.segment += 1;
  EXPECT_EQ(ReadFooter(good, other).finding, PageFinding::kForeign);
  other = SomeFooterIdentity();
  other.segment.store.bytes[0] = std::byte{1};
  EXPECT_EQ(ReadFooter(good, other).finding, PageFinding::kForeign);
}

TEST(SegmentFooterTest, IsBlankOrForeignWhereTheSegmentIsNotSealed) {
  const std::vector<std::byte> blank(kDiskPageBytes);
  EXPECT_EQ(Read(blank).finding, PageFinding::kBlank);
  EXPECT_EQ(Read(testing::BytesOf(3, kDiskPageBytes)).finding, PageFinding::kForeign);
}

// Sealing that was cut off and done again after a restart, with other rows.
TEST(SegmentFooterTest, TakesNoPageOfAnEarlierSealing) {
  std::vector<BlockRow> rows = SomeRows(130);
  const std::vector<std::byte> before = FooterOf(rows, SomeFooterIdentity());
  rows[100].tenant += 1;
  std::vector<std::byte> mixed = FooterOf(rows, SomeFooterIdentity());
  std::copy_n(before.begin(), kDiskPageBytes, mixed.begin());

  const FooterRead read = Read(mixed);

  EXPECT_EQ(read.finding, PageFinding::kGood);
  EXPECT_EQ(read.lost_pages, 1U);
  EXPECT_TRUE(std::equal(read.rows.begin(), read.rows.end(), rows.begin() + 62, rows.end()));
}

TEST(SegmentFooterTest, TakesNoPageInThePlaceOfAnother) {
  const std::vector<std::byte> good = FooterOf(SomeRows(130), SomeFooterIdentity());
  std::vector<std::byte> swapped = good;
  std::copy_n(good.begin(), kDiskPageBytes, swapped.begin() + kDiskPageBytes);
  std::copy_n(good.begin() + kDiskPageBytes, kDiskPageBytes, swapped.begin());
  EXPECT_EQ(Read(swapped).lost_pages, 2U);
}

TEST(SegmentFooterTest, LeavesOutRowsWithFlagsOfALaterVersion) {
  const auto rows = SomeRows(5);
  std::vector<std::byte> bytes = FooterOf(rows, SomeFooterIdentity());
  PutAndSeal(PageAt(bytes, 0), kRowsAt + 2 * kBlockRowBytes + 47, std::uint8_t{0x80});

  const FooterRead read = Read(bytes);

  ASSERT_OK(read.status);
  EXPECT_EQ(read.refused_rows, 1U);
  ASSERT_EQ(read.rows.size(), 4U);
  EXPECT_EQ(read.rows[2], rows[3]);
}

TEST(SegmentFooterTest, IsNewerWithUnknownFields) {
  for (const std::size_t at : {std::size_t{60}, std::size_t{80}, std::size_t{111},
                               kRowsAt + 5 * kBlockRowBytes, std::size_t{4079}}) {
    std::vector<std::byte> bytes = FooterOf(SomeRows(5), SomeFooterIdentity());
    PutAndSeal(PageAt(bytes, 0), at, std::uint8_t{1});
    EXPECT_EQ(Read(bytes).finding, PageFinding::kNewer) << at;
  }
}

// With checksums that match: only the numbers themselves can tell.
TEST(SegmentFooterTest, IsDamagedWithNumbersThatCannotBe) {
  const auto finding_with = [](std::size_t at, std::uint32_t value) {
    std::vector<std::byte> bytes = FooterOf(SomeRows(5), SomeFooterIdentity());
    PutAndSeal(PageAt(bytes, 0), at, value);
    return Read(bytes).finding;
  };
  for (const std::uint32_t hostile : {0U, 6U, 1U << 31, ~0U}) {
    EXPECT_NE(finding_with(52, hostile), PageFinding::kGood) << "page count " << hostile;
    EXPECT_NE(finding_with(56, hostile), PageFinding::kGood) << "row count " << hostile;
    if (hostile != 0) {
      EXPECT_NE(finding_with(48, hostile), PageFinding::kGood) << "page index " << hostile;
    }
    const std::size_t row = kRowsAt + 2 * kBlockRowBytes;
    EXPECT_EQ(finding_with(row + 36, hostile), PageFinding::kDamaged) << "length " << hostile;
  }
  for (const std::uint32_t page : {0U, 1U, 1023U, 1024U, ~0U}) {
    EXPECT_EQ(finding_with(kRowsAt + 2 * kBlockRowBytes + 32, page), PageFinding::kDamaged) << page;
  }
  EXPECT_EQ(finding_with(64, 1), PageFinding::kDamaged) << "the table's checksum";
}

// Each page fits by itself, but the second one's first payload lies within the first one's last.
TEST(SegmentFooterTest, IsDamagedWithAnOverlapAcrossPages) {
  std::vector<std::byte> bytes = FooterOf(SomeRows(70), SomeFooterIdentity());
  PutAndSeal(PageAt(bytes, 1), kRowsAt + 32, std::uint32_t{1});
  const FooterRead read = Read(bytes);
  EXPECT_EQ(read.finding, PageFinding::kDamaged);
  EXPECT_TRUE(read.rows.empty());
  EXPECT_NE(read.status.message().find("overlaps"), std::string_view::npos)
      << read.status.ToString();
}

TEST(SegmentFooterTest, NeverReturnsRowsThatOverlapHoweverItsBytesChange) {
  Random random(3);
  const std::vector<std::byte> good = FooterOf(SomeRows(70), SomeFooterIdentity());
  std::size_t good_count = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = good;
    const std::size_t at = random.Below(bytes.size());
    bytes[at] = static_cast<std::byte>(random.Next());
    SealPage(PageAt(bytes, at / kDiskPageBytes));
    const FooterRead read = Read(bytes);
    if (read.finding == PageFinding::kGood) {
      ++good_count;
      ASSERT_OK(CheckRows(read.rows, FooterFirstPage(1024, 70)));
    }
  }
  EXPECT_GT(good_count, 0U);
}

}  // namespace
}  // namespace kvferry::tiers
