// The superblock: which of four copies is believed, after every crash, rot and mix-up.
#include "tiers/nvme/superblock.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/format_samples.h"

namespace kvferry::tiers {
namespace {

using testing::PageBytes;
using testing::PageOf;
using testing::PutAndSeal;
using testing::SomeSuperblock;

using FourPages = std::array<PageBytes, kSuperblockCopies>;

SuperblockChoice Choose(const FourPages& pages) {
  return ChooseSuperblock({pages[0], pages[1], pages[2], pages[3]});
}

FourPages AllOf(const PageBytes& page) {
  return {page, page, page, page};
}

Superblock WithSequence(std::uint64_t sequence) {
  Superblock superblock = SomeSuperblock();
  superblock.sequence = sequence;
  superblock.layout.segment_count = static_cast<std::uint32_t>(100 + sequence);
  return superblock;
}

bool Says(const SuperblockChoice& choice, std::string_view text) {
  return choice.status.message().find(text) != std::string_view::npos;
}

TEST(SuperblockTest, HasItsCopiesBeforeTheSegments) {
  EXPECT_EQ(SuperblockOffset(0), 0U);
  EXPECT_EQ(SuperblockOffset(3), 192 * kKiB);
}

TEST(SuperblockTest, ComesBackWhateverItsNumbersAre) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    Superblock superblock;
    superblock.store.bytes[random.Below(16)] = static_cast<std::byte>(random.Between(1, 255));
    superblock.sequence = random.Between(1, kPageNumberMax - 1);
    superblock.drive_count = static_cast<std::uint32_t>(random.Between(1, kDriveCountMax));
    superblock.drive_index = static_cast<std::uint32_t>(random.Below(superblock.drive_count));
    superblock.layout.segment_bytes = random.Between(1, 1024) * kMiB;
    superblock.layout.segment_count =
        static_cast<std::uint32_t>(random.Between(kSegmentCountMin, kSegmentCountMax));

    const SuperblockChoice choice = Choose(AllOf(PageOf(superblock)));

    ASSERT_OK(choice.status);
    ASSERT_EQ(choice.superblock, superblock);
    ASSERT_EQ(choice.next_sequence, superblock.sequence + 1);
    ASSERT_EQ(std::count(choice.is_current.begin(), choice.is_current.end(), true), 4);
  }
}

// A flipped byte in one copy leaves the other three; in all four alike it leaves none to believe.
TEST(SuperblockTest, BelievesNoCopyWithAFlippedByte) {
  const PageBytes good = PageOf(SomeSuperblock());
  for (std::size_t at = 0; at < good.size(); ++at) {
    PageBytes flipped = good;
    flipped.at(at) ^= std::byte{0x40};
    FourPages pages = AllOf(good);
    pages.at(at % pages.size()) = flipped;
    const SuperblockChoice three = Choose(pages);
    ASSERT_OK(three.status);
    ASSERT_EQ(three.superblock, SomeSuperblock());
    ASSERT_FALSE(three.is_current.at(at % pages.size())) << "needs repair";
    ASSERT_NE(Choose(AllOf(flipped)).finding, PageFinding::kGood) << "byte " << at;
  }
}

// Copies are written one after the other; the crash may tear the one being written.
TEST(SuperblockTest, IsTheOldOrTheNewOneAfterACrashAtAnyWrite) {
  const PageBytes before = PageOf(WithSequence(7));
  const PageBytes after = PageOf(WithSequence(8));
  for (std::size_t written = 0; written <= kSuperblockCopies; ++written) {
    for (unsigned sectors = 0; sectors < 256; sectors += 15) {
      FourPages pages = AllOf(before);
      std::fill_n(pages.begin(), written, after);
      for (unsigned sector = 0; sector < 8 && written < pages.size(); ++sector) {
        if ((sectors >> sector & 1U) != 0) {
          std::copy_n(after.begin() + sector * 512, 512, pages.at(written).begin() + sector * 512);
        }
      }
      const SuperblockChoice choice = Choose(pages);
      ASSERT_OK(choice.status);
      const bool is_new = choice.superblock == WithSequence(8);
      ASSERT_TRUE(is_new || choice.superblock == WithSequence(7));
      ASSERT_TRUE(is_new || written < 2) << "two copies were synced";
      ASSERT_GT(choice.next_sequence, choice.superblock.sequence);
    }
  }
}

TEST(SuperblockTest, IsNotChosenFromASingleCopyHoweverNew) {
  FourPages pages = AllOf(PageOf(WithSequence(7)));
  pages[2] = PageOf(WithSequence(9));
  SuperblockChoice choice = Choose(pages);
  ASSERT_OK(choice.status);
  EXPECT_EQ(choice.superblock.sequence, 7U);
  EXPECT_EQ(choice.next_sequence, 10U) << "must win over the single copy later";

  pages = {PageOf(WithSequence(6)), PageOf(WithSequence(7)), PageBytes{}, PageBytes{}};
  choice = Choose(pages);
  EXPECT_EQ(choice.finding, PageFinding::kDamaged);
  EXPECT_TRUE(Says(choice, "2 are whole, 2 blank")) << choice.status.ToString();
  EXPECT_TRUE(Says(choice, "format it anew")) << choice.status.ToString();
}

TEST(SuperblockTest, IsDamagedWhenTwoPairsContradictEachOther) {
  Superblock other = SomeSuperblock();
  other.drive_index = 0;
  const PageBytes first = PageOf(SomeSuperblock());
  const PageBytes second = PageOf(other);
  const SuperblockChoice choice = Choose({first, second, first, second});
  EXPECT_EQ(choice.finding, PageFinding::kDamaged);
  EXPECT_TRUE(Says(choice, "contradict")) << choice.status.ToString();
}

TEST(SuperblockTest, TellsABlankDriveFromAForeignOne) {
  EXPECT_EQ(Choose(AllOf(PageBytes{})).finding, PageFinding::kBlank);
  PageBytes foreign{};
  foreign.fill(std::byte{0x5a});
  const SuperblockChoice choice = Choose({foreign, PageBytes{}, PageBytes{}, foreign});
  EXPECT_EQ(choice.finding, PageFinding::kForeign);
  EXPECT_STATUS(choice.status, StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(choice, "another path")) << choice.status.ToString();
}

// A drive whose reads fail must not be taken for a blank one, which would be formatted.
TEST(SuperblockTest, IsNotBlankWhenCopiesCannotBeRead) {
  const PageBytes blank{};
  EXPECT_EQ(ChooseSuperblock({}).finding, PageFinding::kDamaged);
  EXPECT_EQ(ChooseSuperblock({blank, blank, blank, {}}).finding, PageFinding::kDamaged);
}

TEST(SuperblockTest, IsFoundInAFileThatWasCutBehindItsSecondCopy) {
  const PageBytes good = PageOf(SomeSuperblock());
  const SuperblockChoice choice = ChooseSuperblock({good, good, std::span(good).first(100), {}});
  ASSERT_OK(choice.status);
  EXPECT_EQ(choice.is_current, (std::array<bool, 4>{true, true, false, false}));
}

TEST(SuperblockTest, IsRefusedAsNewerWithWhatAnEarlierVersionDoesNotKnow) {
  struct Field {
    std::size_t at;
    std::uint8_t value;
    const char* message;
  };
  const Field fields[] = {{8, 2, "format version 2"}, {12, 1, "unknown features 1"},
                          {60, 1, "pages of"},        {64, 2, "checksum kind 2"},
                          {65, 1, "unknown fields"},  {4079, 1, "unknown fields"}};
  for (const Field& field : fields) {
    PageBytes page = PageOf(SomeSuperblock());
    PutAndSeal(page, field.at, field.value);
    const SuperblockChoice choice = Choose(AllOf(page));
    EXPECT_EQ(choice.finding, PageFinding::kNewer);
    EXPECT_TRUE(Says(choice, field.message)) << choice.status.ToString();
    EXPECT_TRUE(Says(choice, "use the kvferry that wrote it")) << choice.status.ToString();
  }
}

TEST(SuperblockTest, OfALaterVersionDoesNotWinFromASingleCopy) {
  PageBytes newer = PageOf(WithSequence(8));
  PutAndSeal(newer, 8, std::uint32_t{2});
  FourPages pages = AllOf(PageOf(WithSequence(7)));
  pages[0] = newer;
  EXPECT_EQ(Choose(pages).finding, PageFinding::kGood);
  pages[1] = newer;
  EXPECT_EQ(Choose(pages).finding, PageFinding::kNewer);
}

TEST(SuperblockTest, IsDamagedWithNumbersThatCannotBe) {
  const auto finding_with = [](std::size_t at, auto value) {
    PageBytes page = PageOf(SomeSuperblock());
    PutAndSeal(page, at, value);
    return Choose(AllOf(page)).finding;
  };
  EXPECT_EQ(finding_with(40, std::uint32_t{3}), PageFinding::kDamaged) << "index of 3 drives";
  EXPECT_EQ(finding_with(44, std::uint32_t{0}), PageFinding::kDamaged);
  EXPECT_EQ(finding_with(44, kDriveCountMax + 1), PageFinding::kDamaged);
  for (const std::uint64_t bytes : {std::uint64_t{0}, kMiB - 1, kMiB + 4096, 2 * kGiB, ~kMiB + 1}) {
    EXPECT_EQ(finding_with(48, bytes), PageFinding::kDamaged) << bytes;
  }
  for (const std::uint32_t count : {std::uint32_t{0}, std::uint32_t{1}, ~std::uint32_t{0}}) {
    EXPECT_EQ(finding_with(56, count), PageFinding::kDamaged) << count;
  }
}

TEST(SuperblockTest, IsOfTheSameStoreByIdentityAndSegmentSize) {
  const Superblock expected = SomeSuperblock();
  Superblock found = expected;
  found.layout.segment_count += 5;
  found.sequence += 1;
  EXPECT_OK(CheckSameStore(found, expected));

  found = expected;
  found.store.bytes[3] = std::byte{0xff};
  EXPECT_STATUS(CheckSameStore(found, expected), StatusCode::kInvalidArgument);
  found = expected;
  found.drive_index = 0;
  EXPECT_STATUS(CheckSameStore(found, expected), StatusCode::kInvalidArgument);
  found = expected;
  found.layout.segment_bytes *= 2;
  EXPECT_STATUS(CheckSameStore(found, expected), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvferry::tiers
