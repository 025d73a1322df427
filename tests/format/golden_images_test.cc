// The committed images of every version of the NVMe format: served if known, refused if not.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tiers/nvme/segment_footer.h"
#include "tiers/nvme/segment_header.h"
#include "tiers/nvme/superblock.h"

namespace kvferry::tiers {
namespace {

unsigned DigitOf(char digit) {
  return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

// The bytes of an image of that many pages; empty if there is none.
std::vector<std::byte> ImageOf(const std::string& name, std::size_t pages = 1) {
  std::ifstream file(std::string(KVFERRY_GOLDEN_DIR) + "/v1/" + name + ".hex");
  std::vector<std::byte> image;
  std::string digits;
  for (std::size_t at = 0; file >> std::hex >> at >> digits;) {
    image.resize(pages * kDiskPageBytes);
    for (std::size_t i = 0; i < digits.size() / 2; ++i) {
      image.at(at + i) =
          static_cast<std::byte>(DigitOf(digits.at(2 * i)) * 16 + DigitOf(digits.at(2 * i + 1)));
    }
  }
  EXPECT_FALSE(image.empty()) << name;
  return image;
}

StoreUuid GoldenStore() {
  StoreUuid store;
  for (std::size_t i = 0; i < store.bytes.size(); ++i) {
    store.bytes.at(i) = static_cast<std::byte>(0x11 * i);
  }
  return store;
}

SegmentIdentity GoldenSegment() {
  return {.store = GoldenStore(), .drive_index = 1, .segment = 42};
}

FooterIdentity GoldenFooter() {
  return {.segment = GoldenSegment(), .generation = 1'234'567'890'123, .pages_per_segment = 1024};
}

SuperblockChoice ChooseFrom(const std::string& name) {
  const std::vector<std::byte> image = ImageOf(name);
  return ChooseSuperblock({image, image, image, image});
}

TEST(GoldenImagesTest, SuperblockIsServedAndWrittenAgainTheSame) {
  const SuperblockChoice choice = ChooseFrom("superblock");
  ASSERT_OK(choice.status);
  const Superblock expected = {.store = GoldenStore(),
                               .sequence = 7,
                               .drive_index = 1,
                               .drive_count = 3,
                               .layout = {.segment_bytes = 4 * kMiB, .segment_count = 1000},
                               .checksum_kind = ChecksumKind::kXxh3};
  EXPECT_EQ(choice.superblock, expected);
  std::vector<std::byte> page(kDiskPageBytes);
  EncodeSuperblock(expected, std::span(page).first<kDiskPageBytes>());
  EXPECT_EQ(page, ImageOf("superblock"));
}

TEST(GoldenImagesTest, SuperblockOfALaterVersionIsRefusedByName) {
  for (const char* name : {"superblock_of_version_2", "superblock_with_a_feature",
                           "superblock_with_checksum_kind_2", "superblock_with_large_pages"}) {
    const SuperblockChoice choice = ChooseFrom(name);
    EXPECT_EQ(choice.finding, PageFinding::kNewer) << name;
    EXPECT_STATUS(choice.status, StatusCode::kInvalidArgument);
    EXPECT_EQ(choice.next_sequence, 8U) << name << ": formatting over it must win";
  }
}

TEST(GoldenImagesTest, SegmentHeaderIsServedAndWrittenAgainTheSame) {
  const std::vector<std::byte> image = ImageOf("segment_header");
  const SegmentHeaderRead read = ReadSegmentHeader(image, GoldenSegment());
  ASSERT_OK(read.status);
  const SegmentHeader expected = {.identity = GoldenSegment(),
                                  .generation = 1'234'567'890'123,
                                  .stream = SegmentStream::kProtected,
                                  .opened_unix_ms = 1'790'000'000'123};
  EXPECT_EQ(read.header, expected);
  std::vector<std::byte> page(kDiskPageBytes);
  EncodeSegmentHeader(expected, std::span(page).first<kDiskPageBytes>());
  EXPECT_EQ(page, image);
}

TEST(GoldenImagesTest, SegmentHeaderOfALaterVersionIsRefused) {
  for (const char* name : {"segment_header_of_version_2", "segment_header_with_stream_2"}) {
    const SegmentHeaderRead read = ReadSegmentHeader(ImageOf(name), GoldenSegment());
    EXPECT_EQ(read.finding, PageFinding::kNewer) << name;
  }
}

TEST(GoldenImagesTest, SegmentFooterIsServedAndWrittenAgainTheSame) {
  const std::vector<std::byte> image = ImageOf("segment_footer", 2);
  const FooterRead read = ReadFooter(image, GoldenFooter());
  ASSERT_OK(read.status);
  EXPECT_EQ(read.lost_pages + read.refused_rows, 0U);
  ASSERT_EQ(read.rows.size(), 64U);
  EXPECT_EQ(read.rows[1].page, 2U);
  EXPECT_EQ(read.rows[1].stored_bytes, 5004U);
  EXPECT_EQ(read.rows[1].raw_bytes, 10008U);
  EXPECT_EQ(read.rows[63].tenant, 63U);
  EXPECT_EQ(read.rows[63].codec, 3U);
  EXPECT_EQ(read.rows[63].flags, BlockRow::kProtected);
  std::vector<std::byte> pages(2 * std::size_t{kDiskPageBytes});
  EncodeFooter(GoldenFooter(), read.rows, pages);
  EXPECT_EQ(pages, image);
}

TEST(GoldenImagesTest, SegmentFooterOfALaterVersionIsRefused) {
  const FooterRead read = ReadFooter(ImageOf("segment_footer_of_version_2"), GoldenFooter());
  EXPECT_EQ(read.finding, PageFinding::kNewer);
  EXPECT_TRUE(read.rows.empty());
}

TEST(GoldenImagesTest, RowsWithFlagsOfALaterVersionAreLeftOut) {
  const FooterRead read = ReadFooter(ImageOf("segment_footer_with_row_flags"), GoldenFooter());
  ASSERT_OK(read.status);
  EXPECT_EQ(read.refused_rows, 1U);
  EXPECT_EQ(read.rows.size(), 4U);
}

}  // namespace
}  // namespace kvferry::tiers
