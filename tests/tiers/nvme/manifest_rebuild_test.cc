// RebuildManifest: which rows headers and footers give back, and under which numbers.
#include "tiers/nvme/manifest_rebuild.h"

#include <filesystem>

#include "tests/tiers/nvme/store_samples.h"

namespace kvferry::tiers {
namespace {

using testing::Overwrite;
using testing::SampleStore;
using testing::TestFolder;

class ManifestRebuildTest : public ::testing::Test {
 protected:
  // What a rebuild makes of the drives, with all its batches in one.
  ManifestRebuild Rebuild() {
    const auto drives = DriveSet::OpenForReading(sample_.paths());
    EXPECT_OK(drives.status());
    const StoreReader reader(**drives);
    const auto rebuild = RebuildManifest(reader, [this](ManifestBatch& batch) {
      EXPECT_TRUE(batch.is_synced);
      EXPECT_TRUE(made_.meta_puts.empty()) << "the values are not the last";
      const auto add = [](auto& sum, const auto& more) {
        sum.insert(sum.end(), more.begin(), more.end());
      };
      add(made_.segment_puts, batch.segment_puts);
      add(made_.block_puts, batch.block_puts);
      add(made_.meta_puts, batch.meta_puts);
      return Status::Ok();
    });
    EXPECT_OK(rebuild.status());
    return *rebuild;
  }

  TestFolder folder_;
  SampleStore sample_{{folder_ / "a", folder_ / "b"}};
  ManifestBatch made_;
};

TEST_F(ManifestRebuildTest, TakesWhatSealedSegmentsTell) {
  const ManifestRebuild rebuild = Rebuild();

  EXPECT_EQ(rebuild.segments, 2U);
  EXPECT_EQ(rebuild.newest_generation, 13U);
  // The sample has blocks of twelve sizes.
  EXPECT_EQ(rebuild.blocks, 2 * kLostSizesMax);
  EXPECT_EQ(rebuild.left_out, 2 * (SampleStore::kBlocksPerSegment - kLostSizesMax));
  ASSERT_EQ(made_.block_puts.size(), rebuild.blocks);
  PlacedRow expected = sample_.blocks[3];
  expected.row.tenant = kLostNumberMin + 3;
  EXPECT_EQ(made_.block_puts[3], expected);
  ASSERT_EQ(made_.segment_puts.size(), 4U);
  EXPECT_EQ(made_.segment_puts[0].state, SegmentState::kSealed);
  EXPECT_EQ(made_.segment_puts[0].life, sample_.segments[0].life);
  EXPECT_EQ(made_.segment_puts[2].state, SegmentState::kClean);
  ASSERT_EQ(made_.meta_puts.size(), kLostSizesMax + 1);
  EXPECT_EQ(made_.meta_puts[3].name, "namespace/65283");
  EXPECT_EQ(ReadLostValue(made_.meta_puts[3].value), expected.row.raw_bytes);
  EXPECT_EQ(made_.meta_puts.back().name, kStoreValueName);
}

TEST_F(ManifestRebuildTest, LeavesOutSegmentsWithoutAHeader) {
  Overwrite(sample_.FileOf(0), sample_.OffsetOf(0, 0), std::string(kDiskPageBytes, '\0'));
  Overwrite(sample_.FileOf(1), sample_.OffsetOf(1, 0) + 48, "rot");

  const ManifestRebuild rebuild = Rebuild();
  EXPECT_EQ(rebuild.segments, 0U);
  EXPECT_EQ(rebuild.blocks, 0U);
}

// New lives must be above what a footer says of a segment whose header is gone.
TEST_F(ManifestRebuildTest, CountsGenerationsOfFootersToo) {
  for (const std::uint32_t segment : {1U, 2U, 3U}) {
    Overwrite(sample_.FileOf(segment), sample_.OffsetOf(segment, 0) + 48, "rot");
  }

  EXPECT_EQ(Rebuild().newest_generation, 11U);
}

TEST_F(ManifestRebuildTest, ReadsOnlyItsOwnValues) {
  EXPECT_EQ(ReadLostValue(WriteLostValue(4096)), 4096U);
  for (const char* text :
       {"", "lost", "lost ", "lost x", "lost 4096 ", "4096", "lost 99999999999"}) {
    EXPECT_FALSE(ReadLostValue(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace kvferry::tiers
