// FooterWriter: when a footer is written, and what waits until one that is stale has been.
#include "tiers/nvme/footer_writer.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/sim_disk.h"
#include "sim/sim_manifest.h"
#include "sim/sim_ring.h"
#include "tests/support/test_blocks.h"
#include "tiers/nvme/store_reader.h"

namespace kvferry::tiers {
namespace {

constexpr std::uint32_t kPages = 64;
constexpr std::uint32_t kOwnersMax = 8;

class DiskPages final : public PageSource {
 public:
  explicit DiskPages(const sim::SimDisk& disk) : disk_(disk) {}
  Status ReadPages(std::uint32_t /*drive*/,
                   std::uint64_t offset_bytes,
                   std::span<std::byte> target) const override {
    disk_.Read(offset_bytes, target);
    return Status::Ok();
  }

 private:
  const sim::SimDisk& disk_;
};

// Blocks of one page each; owner i has page 1 + i of segment 0.
class FooterWriterTest : public ::testing::Test, private FooterSink, private CommitSink {
 protected:
  static constexpr SegmentLife kLife{.segment = 0, .generation = 5};

  FooterWriterTest() {
    options_.store.bytes.fill(std::byte{7});
    options_.layout = {.segment_bytes = std::uint64_t{kPages} * kDiskPageBytes, .segment_count = 2};
    options_.owners_per_segment_max = kOwnersMax;
    disk_ = std::make_unique<sim::SimDisk>(options_.layout.end_bytes());
    ring_ = std::make_unique<sim::SimRing>(std::vector{disk_.get()}, clock_, sim::SimRingOptions());
    manifest_ = std::make_unique<sim::SimManifest>(rows_, clock_, sim::SimManifestOptions());
    table_ = std::make_unique<SegmentTable>(SegmentTable::Options{
        .segment_count = 2, .pages_per_segment = kPages, .owners_per_segment_max = kOwnersMax});
    CommitSink& commit_sink = *this;
    commit_ = std::make_unique<GroupCommit>(
        GroupCommit::Options(), GroupCommit::Parts{*ring_, *manifest_, *table_, commit_sink});
    FooterSink& footer_sink = *this;
    writer_ = std::make_unique<FooterWriter>(
        options_, FooterWriter::Parts{*ring_, *table_, *commit_, footer_sink});
    table_->Begin(0, kLife.generation);
    (*table_)[0].phase = SegmentPhase::kOpen;
    for (std::uint32_t owner = 0; owner < 4; ++owner) {
      const std::uint32_t page = table_->Append(0, 1, owner).value_or(0);
      BlockRow row;
      row.key = testing::KeyOf(owner);
      row.page = page;
      row.stored_bytes = 4096;
      row.raw_bytes = 4096;
      known_[owner] = row;
    }
  }

  void Step() {
    ring_->Reap(clock_.Now());
    manifest_->Reap(clock_.Now());
    commit_->Step(clock_.Now());
    writer_->Step(clock_.Now(), true);
    clock_.Advance(std::chrono::microseconds(10));
  }
  void RunUntilIdle() {
    for (int i = 0; i < 200'000 && !(writer_->is_idle() && commit_->is_idle()); ++i) {
      Step();
    }
    ASSERT_TRUE(writer_->is_idle() && commit_->is_idle());
  }
  void SealFirst() {
    writer_->Seal(0);
    RunUntilIdle();
    ASSERT_EQ(FooterKeys().size(), known_.size());
  }
  // What a rebuild would take.
  std::vector<BlockKey> FooterKeys() const {
    const DiskPages pages(*disk_);
    const StoreReader reader({options_.store, options_.layout, 1}, pages);
    std::vector<BlockKey> keys;
    for (const BlockRow& row : reader.ReadFooterOf(kLife).rows) {
      keys.push_back(row.key);
    }
    return keys;
  }
  void Erase(std::uint32_t owner) {
    const std::uint32_t page = known_[owner].page;
    known_.erase(owner);
    writer_->MarkStale(0);
    commit_->Delete(page);
  }

  bool FillFooterRow(std::uint32_t owner, std::uint32_t /*segment*/, BlockRow& row) override {
    const auto known = known_.find(owner);
    if (known == known_.end()) {
      return false;
    }
    row = known->second;
    return true;
  }
  void OnSealed(std::uint32_t segment) noexcept override { sealed_.push_back(segment); }
  bool FillRow(std::uint32_t /*owner*/, std::uint32_t /*page*/, BlockRow& /*row*/) override {
    return false;
  }
  void OnEntryEnd(std::uint32_t /*owner*/,
                  std::uint32_t /*page*/,
                  bool /*is_rewrite*/,
                  End /*end*/,
                  std::uint8_t /*flags*/) noexcept override {}

  FooterWriter::Options options_;
  ManualClock clock_{Instant(std::chrono::seconds(1))};
  std::unique_ptr<sim::SimDisk> disk_;
  sim::SimManifestStore rows_;
  std::unique_ptr<SegmentTable> table_;
  std::unique_ptr<GroupCommit> commit_;
  std::unique_ptr<FooterWriter> writer_;
  std::map<std::uint32_t, BlockRow> known_;
  std::vector<std::uint32_t> sealed_;
  // Last: they end what is in flight into the others.
  std::unique_ptr<sim::SimManifest> manifest_;
  std::unique_ptr<sim::SimRing> ring_;
};

TEST_F(FooterWriterTest, SealsOnceNobodyWrites) {
  (*table_)[0].writers = 1;
  writer_->Seal(0);
  for (int i = 0; i < 1'000; ++i) {
    Step();
  }
  EXPECT_TRUE(sealed_.empty());

  (*table_)[0].writers = 0;
  RunUntilIdle();
  EXPECT_EQ(sealed_, std::vector{0U});
  EXPECT_EQ((*table_)[0].phase, SegmentPhase::kSealed);
  EXPECT_EQ(FooterKeys().size(), 4U);
}

// Whenever the power goes, what a footer tells of has its row.
TEST_F(FooterWriterTest, ARowGoesAfterTheFooterThatTellsOfIt) {
  SealFirst();
  Erase(2);
  const std::uint64_t deletion = commit_->queued_deletions();
  while (commit_->durable_deletions() < deletion) {
    Step();
    if (commit_->durable_deletions() == deletion || manifest_->in_flight() > 0) {
      EXPECT_EQ(FooterKeys().size(), 3U);
      EXPECT_EQ(disk_->unsynced_sector_count(), 0U);
    }
  }
  RunUntilIdle();
  EXPECT_EQ(FooterKeys().size(), 3U);
}

// What is erased while a round of footers is under way waits for the next.
TEST_F(FooterWriterTest, ASecondErasureWaitsForItsOwnRound) {
  SealFirst();
  Erase(2);
  Step();
  Erase(1);
  const std::uint64_t deletion = commit_->queued_deletions();
  while (commit_->durable_deletions() < deletion) {
    Step();
  }
  EXPECT_EQ(FooterKeys().size(), 2U);
}

TEST_F(FooterWriterTest, OpenSegmentsHoldNothingUp) {
  Erase(2);
  EXPECT_TRUE(writer_->is_idle());
  RunUntilIdle();
  EXPECT_EQ(commit_->durable_deletions(), 1U);
}

// Where the footer cannot be written the header goes, and the segment is no rebuild's any more.
TEST_F(FooterWriterTest, AFooterThatCannotBeWrittenGoesWithItsHeader) {
  SealFirst();
  std::vector<std::byte> header(kDiskPageBytes, std::byte{1});
  disk_->Write(options_.layout.PageOffset(0, 0), header);
  Erase(2);
  for (std::uint64_t attempt = 0; attempt < 3; ++attempt) {
    ring_->InjectAt(ring_->submitted_count() + attempt, sim::SimFault::kWriteError);
  }
  RunUntilIdle();

  disk_->Read(options_.layout.PageOffset(0, 0), header);
  EXPECT_EQ(header, std::vector<std::byte>(kDiskPageBytes));
  EXPECT_EQ(commit_->durable_deletions(), 1U);
}

// Its header was blanked before: there is nothing to write, and nothing must be written.
TEST_F(FooterWriterTest, ALifeThatIsOverNeedsNoFooter) {
  SealFirst();
  Erase(2);
  (*table_)[0].phase = SegmentPhase::kEmptying;
  table_->Begin(0, kLife.generation + 1);
  RunUntilIdle();
  EXPECT_EQ(FooterKeys().size(), 4U);
}

}  // namespace
}  // namespace kvferry::tiers
