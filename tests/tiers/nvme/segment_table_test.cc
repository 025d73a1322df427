// Which pages come next, who is listed for them, and which segment is emptied next.
#include "tiers/nvme/segment_table.h"

#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry::tiers {
namespace {

SegmentTable SmallTable() {
  return SegmentTable({.segment_count = 4, .pages_per_segment = 8, .owners_per_segment_max = 4});
}

void Open(SegmentTable& table, std::uint32_t segment, std::uint64_t generation) {
  table.Begin(segment, generation);
  table[segment].phase = SegmentPhase::kOpen;
}

void Seal(SegmentTable& table, std::uint32_t segment, std::uint64_t generation) {
  Open(table, segment, generation);
  table[segment].phase = SegmentPhase::kSealed;
  table[segment].live_bytes = kDiskPageBytes;
}

std::vector<std::uint32_t> OwnersOf(const SegmentTable& table, std::uint32_t segment) {
  const auto owners = table.OwnersOf(segment);
  return {owners.begin(), owners.end()};
}

// A payload over the header, over another one, over the footer, or over the segment's end.
TEST(SegmentTableTest, PayloadsLieBetweenHeaderAndFooter) {
  SegmentTable table = SmallTable();
  Open(table, 1, 1);

  EXPECT_EQ(table.Append(1, 3, 10), 9U);
  EXPECT_EQ(table.Append(1, 3, 11), 12U);
  EXPECT_EQ(table.Append(1, 1, 12), std::nullopt) << "the last page is the footer's";

  EXPECT_EQ(OwnersOf(table, 1), (std::vector<std::uint32_t>{10, 11}));
  EXPECT_EQ(table.SegmentOf(12), 1U);
}

TEST(SegmentTableTest, HasRoomForWhatAppendTakes) {
  SegmentTable table = SmallTable();
  Open(table, 1, 1);

  EXPECT_TRUE(table.HasRoom(1, 6));
  EXPECT_FALSE(table.HasRoom(1, 7)) << "the last page is the footer's";
  ASSERT_TRUE(table.Append(1, 5, 10).has_value());
  EXPECT_TRUE(table.HasRoom(1, 1));
  ASSERT_TRUE(table.Append(1, 1, 11).has_value());
  EXPECT_FALSE(table.HasRoom(1, 1));
}

TEST(SegmentTableTest, ASegmentListsNoMoreOwnersThanItMay) {
  SegmentTable table = SmallTable();
  Open(table, 0, 1);
  for (std::uint32_t owner = 0; owner < 4; ++owner) {
    EXPECT_TRUE(table.Append(0, 1, owner).has_value());
  }

  EXPECT_EQ(table.Append(0, 1, 4), std::nullopt);
  EXPECT_FALSE(table.AddOwner(0, 4));
}

TEST(SegmentTableTest, ANewLifeBeginsEmptyAndRemembersFailures) {
  SegmentTable table = SmallTable();
  Open(table, 0, 5);
  ASSERT_TRUE(table.Append(0, 2, 7).has_value());
  table[0].failures = 2;

  table.Begin(0, 6);

  EXPECT_EQ(table[0].phase, SegmentPhase::kPreparing);
  EXPECT_EQ(table[0].next_page, SegmentTable::kHeaderPages);
  EXPECT_TRUE(OwnersOf(table, 0).empty());
  EXPECT_EQ(table[0].failures, 2);
}

TEST(SegmentTableTest, TheOldestLifeIsEmptiedFirst) {
  SegmentTable table = SmallTable();
  Seal(table, 0, 9);
  Seal(table, 1, 3);
  Seal(table, 2, 6);

  EXPECT_EQ(table.Oldest(), 1U);
}

TEST(SegmentTableTest, ProtectedSegmentsComeLastAndTheEmptiestOfThemFirst) {
  SegmentTable table = SmallTable();
  for (std::uint32_t segment = 0; segment < 3; ++segment) {
    Seal(table, segment, segment + 1);
    table[segment].stream = SegmentStream::kProtected;
    table[segment].live_bytes = (7 - segment) * std::uint64_t{kDiskPageBytes};
  }
  EXPECT_EQ(table.Oldest(), 2U) << "at least half of each lives";

  table[1].live_bytes = 3 * kDiskPageBytes;
  EXPECT_EQ(table.Oldest(), 1U) << "less than half of it lives";

  Seal(table, 3, 99);
  EXPECT_EQ(table.Oldest(), 1U);
  table[1].live_bytes = 6 * kDiskPageBytes;
  EXPECT_EQ(table.Oldest(), 3U);
}

TEST(SegmentTableTest, ASealedSegmentOfDeadPagesIsEmpty) {
  SegmentTable table({.segment_count = 1, .pages_per_segment = 8, .owners_per_segment_max = 4});
  EXPECT_EQ(table.FirstEmpty(), 0U);
  Seal(table, 0, 1);
  EXPECT_EQ(table.FirstEmpty(), std::nullopt);
  table[0].live_bytes = 0;
  EXPECT_EQ(table.FirstEmpty(), 0U);
}

TEST(SegmentTableTest, BesideOpenCleanAndQuarantinedOnesNoneIsToBeReused) {
  SegmentTable table({.segment_count = 3, .pages_per_segment = 8, .owners_per_segment_max = 4});
  EXPECT_TRUE(table.IsAnyToReuse()) << "none has been used";
  table[0].phase = SegmentPhase::kOpen;
  table[1].phase = SegmentPhase::kClean;
  table[2].phase = SegmentPhase::kQuarantined;
  EXPECT_FALSE(table.IsAnyToReuse());
  for (const SegmentPhase phase : {SegmentPhase::kSealing, SegmentPhase::kSealed,
                                   SegmentPhase::kEmptying, SegmentPhase::kPreparing}) {
    table[2].phase = phase;
    EXPECT_TRUE(table.IsAnyToReuse());
  }
}

// A clean segment may have crashed before its header was written.
TEST(SegmentTableTest, WhatTheManifestCallsCleanIsPreparedAgain) {
  SegmentTable table = SmallTable();
  table.Restore({.life = {2, 8}, .state = SegmentState::kClean, .used_pages = 1});
  table.Restore({.life = {3, 7}, .state = SegmentState::kOpen, .used_pages = 5});

  EXPECT_EQ(table[2].phase, SegmentPhase::kUnused);
  EXPECT_EQ(table[3].phase, SegmentPhase::kOpen);
  EXPECT_EQ(table[3].next_page, 5U);
  EXPECT_EQ(table.Append(3, 1, 1), 3 * 8 + 5U);
}

}  // namespace
}  // namespace kvferry::tiers
