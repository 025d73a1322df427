// The segment header: of this segment, this drive and this store, or nothing.
#include "tiers/nvme/segment_header.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/format_samples.h"

namespace kvferry::tiers {
namespace {

using testing::PageBytes;
using testing::PageOf;
using testing::PutAndSeal;
using testing::SomeHeader;

PageFinding FindingOf(const PageBytes& page) {
  return ReadSegmentHeader(page, SomeHeader().identity).finding;
}

TEST(SegmentHeaderTest, ComesBackWhateverItsNumbersAre) {
  Random random(2);
  for (int i = 0; i < 200; ++i) {
    SegmentHeader header = SomeHeader();
    header.identity.segment = static_cast<std::uint32_t>(random.Next());
    header.identity.drive_index = static_cast<std::uint32_t>(random.Next());
    header.generation = random.Between(1, kPageNumberMax - 1);
    header.stream = random.Chance(0.5) ? SegmentStream::kNormal : SegmentStream::kProtected;
    header.opened_unix_ms = static_cast<std::int64_t>(random.Below(253'402'300'800'000));

    const SegmentHeaderRead read = ReadSegmentHeader(PageOf(header), header.identity);

    ASSERT_OK(read.status);
    ASSERT_EQ(read.finding, PageFinding::kGood);
    ASSERT_EQ(read.header, header);
  }
}

TEST(SegmentHeaderTest, IsRefusedWithAnyByteFlipped) {
  const PageBytes good = PageOf(SomeHeader());
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const std::byte bits : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
      PageBytes flipped = good;
      flipped.at(at) ^= bits;
      const SegmentHeaderRead read = ReadSegmentHeader(flipped, SomeHeader().identity);
      ASSERT_NE(read.finding, PageFinding::kGood) << "byte " << at;
      ASSERT_FALSE(read.status.ok());
      ASSERT_EQ(read.header, SegmentHeader{});
    }
  }
}

TEST(SegmentHeaderTest, IsDamagedIfCutShort) {
  const PageBytes good = PageOf(SomeHeader());
  for (std::size_t size = 0; size < good.size(); size += 37) {
    const auto cut = std::span(good).first(size);
    ASSERT_EQ(ReadSegmentHeader(cut, SomeHeader().identity).finding, PageFinding::kDamaged);
  }
}

// A header copied or written to the wrong place is whole, and still not the segment's.
TEST(SegmentHeaderTest, IsForeignInAnyOtherPlace) {
  const PageBytes page = PageOf(SomeHeader());
  SegmentIdentity other = SomeHeader().identity;
  other.segment += 1;
  EXPECT_EQ(ReadSegmentHeader(page, other).finding, PageFinding::kForeign);
  other = SomeHeader().identity;
  other.drive_index += 1;
  EXPECT_EQ(ReadSegmentHeader(page, other).finding, PageFinding::kForeign);
  other = SomeHeader().identity;
  other.store.bytes[15] = std::byte{0};
  EXPECT_EQ(ReadSegmentHeader(page, other).finding, PageFinding::kForeign);
}

TEST(SegmentHeaderTest, IsBlankWhereNothingWasWritten) {
  EXPECT_EQ(FindingOf(PageBytes{}), PageFinding::kBlank);
}

TEST(SegmentHeaderTest, IsNewerWithWhatThisVersionDoesNotKnow) {
  PageBytes page = PageOf(SomeHeader());
  PutAndSeal(page, 56, std::uint8_t{2});
  EXPECT_EQ(FindingOf(page), PageFinding::kNewer) << "a third stream";
  page = PageOf(SomeHeader());
  PutAndSeal(page, 57, std::uint8_t{1});
  EXPECT_EQ(FindingOf(page), PageFinding::kNewer);
  page = PageOf(SomeHeader());
  PutAndSeal(page, 8, std::uint32_t{9});
  EXPECT_EQ(FindingOf(page), PageFinding::kNewer);
}

TEST(SegmentHeaderTest, IsDamagedWithATimeThatCannotBe) {
  for (const std::uint64_t time : {~std::uint64_t{0}, std::uint64_t{253'402'300'800'000}}) {
    PageBytes page = PageOf(SomeHeader());
    PutAndSeal(page, 48, time);
    EXPECT_EQ(FindingOf(page), PageFinding::kDamaged) << time;
  }
}

}  // namespace
}  // namespace kvferry::tiers
