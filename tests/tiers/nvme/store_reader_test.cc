// StoreReader and StoreTally: what a store on disk says of itself, and how it adds up.
#include "tiers/nvme/store_reader.h"

#include "tests/tiers/nvme/store_samples.h"
#include "tiers/nvme/store_tally.h"

namespace kvferry::tiers {
namespace {

using testing::Overwrite;
using testing::SampleStore;
using testing::TestFolder;

class StoreReaderTest : public ::testing::Test {
 protected:
  std::unique_ptr<DriveSet> Open() {
    Result<std::unique_ptr<DriveSet>> drives = DriveSet::OpenForReading(sample_.paths());
    EXPECT_OK(drives.status());
    return std::move(*drives);
  }

  TestFolder folder_;
  SampleStore sample_{{folder_ / "a", folder_ / "b"}};
};

TEST_F(StoreReaderTest, FindsHeadersByTheNumbersOfTheWholeStore) {
  const std::unique_ptr<DriveSet> drives = Open();
  const StoreReader reader(*drives);
  ASSERT_EQ(reader.segment_count(), 8U);
  for (std::uint32_t segment = 0; segment < 4; ++segment) {
    const SegmentHeaderRead read = reader.ReadHeader(segment);
    ASSERT_OK(read.status);
    EXPECT_EQ(read.header.generation, segment + 10);
  }
  EXPECT_EQ(reader.ReadHeader(4).finding, PageFinding::kBlank);
  EXPECT_EQ(reader.DriveOf(3), 1U);
  EXPECT_EQ(reader.OffsetOf(3, 2), 2 * kMiB + 8192);
}

TEST_F(StoreReaderTest, FindsFootersOfOneLifeOnly) {
  const std::unique_ptr<DriveSet> drives = Open();
  const StoreReader reader(*drives);
  const FooterRead read = reader.ReadFooterOf({.segment = 1, .generation = 11});
  ASSERT_OK(read.status);
  ASSERT_EQ(read.rows.size(), SampleStore::kBlocksPerSegment);
  EXPECT_EQ(read.rows[3], sample_.blocks[SampleStore::kBlocksPerSegment + 3].row);
  EXPECT_EQ(reader.ReadFooterOf({.segment = 1, .generation = 12}).finding, PageFinding::kStale);
  EXPECT_EQ(reader.ReadFooterOf({.segment = 2, .generation = 12}).finding, PageFinding::kBlank);
}

TEST_F(StoreReaderTest, TellsDamageFromAnEnd) {
  Overwrite(sample_.FileOf(0), sample_.OffsetOf(0, 0) + 100, "rot");
  const std::unique_ptr<DriveSet> drives = Open();
  const StoreReader reader(*drives);
  EXPECT_EQ(reader.ReadHeader(0).finding, PageFinding::kDamaged);
  ASSERT_EQ(::truncate(sample_.FileOf(6).c_str(), static_cast<off_t>(2 * kMiB)), 0);
  const SegmentHeaderRead read = reader.ReadHeader(6);
  EXPECT_EQ(read.finding, PageFinding::kDamaged);
  EXPECT_STATUS(read.status, StatusCode::kDataLoss);
}

TEST_F(StoreReaderTest, AddsUp) {
  StoreTally tally(8);
  for (const SegmentRow& row : sample_.segments) {
    tally.Add(row);
  }
  for (const PlacedRow& row : sample_.blocks) {
    tally.Add(row);
  }
  EXPECT_EQ(tally.CountOf(SegmentState::kSealed), 2U);
  EXPECT_EQ(tally.CountOf(SegmentState::kClean), 1U);
  EXPECT_EQ(tally.CountOf(SegmentStream::kNormal), 2U);
  EXPECT_EQ(tally.CountOf(SegmentStream::kProtected), 1U);
  EXPECT_EQ(tally.blocks().count, 36U);
  EXPECT_EQ(tally.protected_blocks().count, 12U);
  EXPECT_EQ(tally.by_namespace().at(1).count, 18U);
  EXPECT_EQ(tally.by_namespace().at(0).stored_bytes + tally.by_namespace().at(1).stored_bytes,
            tally.blocks().stored_bytes);
  EXPECT_EQ(tally.blocks().stored_bytes, 3 * (12 + 4'800U * 66));
  EXPECT_EQ(tally.segments()[1].blocks, 12U);
  EXPECT_EQ(tally.segments()[1].live_pages + 1, tally.segments()[1].row.used_pages);
  EXPECT_EQ(tally.orphans(), 0U);

  PlacedRow orphan = sample_.blocks[0];
  for (const SegmentLife life : {SegmentLife{0, 9}, {3, 13}, {5, 1}, {8, 1}}) {
    orphan.life = life;
    tally.Add(orphan);
  }
  EXPECT_EQ(tally.orphans(), 4U);
  EXPECT_EQ(tally.blocks().count, 36U);
  SegmentRow dropped = sample_.segments[0];
  dropped.life.segment = 8;
  tally.Add(dropped);
  EXPECT_EQ(tally.dropped_segments(), 1U);
}

}  // namespace
}  // namespace kvferry::tiers
