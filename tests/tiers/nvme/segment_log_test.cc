// Which pages come next, and whose segment is given up for them.
#include "tiers/nvme/segment_log.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry::tiers {
namespace {

SegmentLog::Options SmallLog() {
  return {.segment_count = 3, .pages_per_segment = 8, .owners_per_segment_max = 4};
}

std::vector<std::uint32_t> OwnersOf(const SegmentLog& log, std::uint32_t segment) {
  const auto owners = log.OwnersOf(segment);
  return {owners.begin(), owners.end()};
}

// A payload over the header, over another one, or over a segment's end.
TEST(SegmentLogTest, PayloadsFollowTheHeaderAndStayInTheirSegment) {
  SegmentLog log(SmallLog());

  EXPECT_EQ(log.Append(3, 10), 1U);
  EXPECT_EQ(log.Append(3, 11), 4U);
  EXPECT_EQ(log.Append(2, 12), std::nullopt);
  EXPECT_EQ(log.Append(1, 13), 7U);
  EXPECT_EQ(log.Append(1, 14), std::nullopt);
  log.OpenNext();
  EXPECT_EQ(log.Append(7, 15), 9U);

  EXPECT_EQ(OwnersOf(log, 0), (std::vector<std::uint32_t>{10, 11, 13}));
  EXPECT_EQ(OwnersOf(log, 1), std::vector<std::uint32_t>{15});
  EXPECT_EQ(log.SegmentOf(7), 0U);
  EXPECT_EQ(log.SegmentOf(9), 1U);
}

TEST(SegmentLogTest, ASegmentListsNoMoreOwnersThanItMay) {
  SegmentLog log(SmallLog());
  for (std::uint32_t owner = 0; owner < 4; ++owner) {
    EXPECT_TRUE(log.Append(1, owner).has_value());
  }

  EXPECT_EQ(log.Append(1, 4), std::nullopt);
}

TEST(SegmentLogTest, TheSegmentThatWasOpenedFirstIsReusedFirst) {
  SegmentLog log(SmallLog());
  log.Append(1, 10);
  for (const std::uint32_t next : {1U, 2U, 0U}) {
    EXPECT_EQ(log.reuses(), 0U);
    EXPECT_EQ(log.next_segment(), next);
    log.OpenNext();
  }

  EXPECT_EQ(log.reuses(), 1U);
  EXPECT_TRUE(OwnersOf(log, 0).empty());
  EXPECT_EQ(log.Append(1, 20), 1U);
}

// Pages are overwritten under somebody who still reads them.
TEST(SegmentLogDeathTest, ASegmentInUseIsNotOpened) {
  SegmentLog log(SmallLog());
  log.AddUser(1);

  EXPECT_DEATH(log.OpenNext(), "broken check");
  log.RemoveUser(1);
  log.OpenNext();
  EXPECT_EQ(log.users(1), 0U);
}

}  // namespace
}  // namespace kvferry::tiers
