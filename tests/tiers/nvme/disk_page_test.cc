// The frame of a page: told apart by what it is, and never believed without its checksum.
#include "tiers/nvme/disk_page.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/format_samples.h"

namespace kvferry::tiers {
namespace {

using testing::PageBytes;
using testing::PutAndSeal;
using testing::SomeStore;

PageBytes SomePage() {
  PageBytes page{};
  WriteFrame(page, PageKind::kSegmentHeader, {.store = SomeStore(), .number = 5});
  SealPage(page);
  return page;
}

PageFinding FindingOf(std::span<const std::byte> bytes) {
  return ReadFrame(bytes, PageKind::kSegmentHeader).finding;
}

TEST(StoreUuidTest, PrintsInTheUsualForm) {
  EXPECT_EQ(ToString(SomeStore()), "00112233-4455-6677-8899-aabbccddeeff");
}

TEST(DiskPageTest, ComesBack) {
  const FrameRead read = ReadFrame(SomePage(), PageKind::kSegmentHeader);
  ASSERT_OK(read.status);
  EXPECT_EQ(read.finding, PageFinding::kGood);
  EXPECT_EQ(read.frame, (PageFrame{.store = SomeStore(), .number = 5}));
}

TEST(DiskPageTest, IsBlankOnlyIfEveryByteIsZero) {
  PageBytes page{};
  EXPECT_EQ(FindingOf(page), PageFinding::kBlank);
  page.back() = std::byte{1};
  EXPECT_EQ(FindingOf(page), PageFinding::kForeign);
}

TEST(DiskPageTest, IsDamagedIfItIsNotAWholePage) {
  const PageBytes page = SomePage();
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{512}, page.size() - 1}) {
    EXPECT_EQ(FindingOf(std::span(page).first(size)), PageFinding::kDamaged) << size;
  }
  const std::vector<std::byte> two(page.size() * 2);
  EXPECT_EQ(FindingOf(two), PageFinding::kDamaged);
}

// The magic seeds the checksum, so that a header cannot turn into a footer by eight bytes.
TEST(DiskPageTest, IsOfItsKindOnly) {
  PageBytes page = SomePage();
  EXPECT_EQ(ReadFrame(page, PageKind::kSegmentFooter).finding, PageFinding::kForeign);
  PageBytes footer{};
  WriteFrame(footer, PageKind::kSegmentFooter, {.store = SomeStore(), .number = 5});
  std::copy_n(footer.begin(), 8, page.begin());
  EXPECT_EQ(ReadFrame(page, PageKind::kSegmentFooter).finding, PageFinding::kDamaged);
}

TEST(DiskPageTest, IsNewerWithALaterVersionOrAnyFeature) {
  PageBytes page = SomePage();
  PutAndSeal(page, 8, kFormatVersion + 1);
  const FrameRead version = ReadFrame(page, PageKind::kSegmentHeader);
  EXPECT_EQ(version.finding, PageFinding::kNewer);
  EXPECT_NE(version.status.message().find("version 2"), std::string_view::npos);
  EXPECT_EQ(version.frame.number, 5U);

  for (unsigned bit = 0; bit < 32; ++bit) {
    page = SomePage();
    PutAndSeal(page, 12, std::uint32_t{1} << bit);
    EXPECT_EQ(FindingOf(page), PageFinding::kNewer) << bit;
  }
}

TEST(DiskPageTest, IsDamagedWithNumbersThatCannotBe) {
  for (const std::uint64_t number : {std::uint64_t{0}, kPageNumberMax, ~std::uint64_t{0}}) {
    PageBytes page = SomePage();
    PutAndSeal(page, 32, number);
    EXPECT_EQ(FindingOf(page), PageFinding::kDamaged) << number;
  }
  PageBytes page = SomePage();
  PutAndSeal(page, 8, std::uint32_t{0});
  EXPECT_EQ(FindingOf(page), PageFinding::kDamaged);
  page = SomePage();
  std::fill_n(page.begin() + 16, 16, std::byte{0});
  SealPage(page);
  EXPECT_EQ(FindingOf(page), PageFinding::kDamaged);
}

}  // namespace
}  // namespace kvferry::tiers
