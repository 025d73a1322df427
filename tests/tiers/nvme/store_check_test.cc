// StoreCheck finds every damage of a store, names it once, and mends without costing a good row.
#include "tiers/nvme/store_check.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/tiers/nvme/store_samples.h"
#include "tiers/nvme/open_io_ring.h"

namespace kvferry::tiers {
namespace {

using testing::Overwrite;
using testing::SampleStore;
using testing::TestFolder;

constexpr std::uint32_t kPerSegment = SampleStore::kBlocksPerSegment;

// A ring over bad sectors: reads that touch one of these places fail with EIO.
class BadSectorRing final : public IoRing, private IoSink {
 public:
  explicit BadSectorRing(std::unique_ptr<IoRing> inner) : inner_(std::move(inner)) {}

  void AddBadSector(std::uint32_t file, std::uint64_t offset) { bad_.insert({file, offset}); }

  std::size_t Reap(Instant now) override { return inner_->Reap(now); }
  std::uint32_t in_flight() const noexcept override { return inner_->in_flight(); }
  std::uint32_t in_flight_max() const noexcept override { return inner_->in_flight_max(); }
  void WaitUntil(Instant deadline) override { inner_->WaitUntil(deadline); }
  void Wake() noexcept override { inner_->Wake(); }
  Status RegisterBuffer(std::span<std::byte> chunk) override {
    return inner_->RegisterBuffer(chunk);
  }

 private:
  Status Take(IoOp& op) override {
    sinks_[&op] = op.sink;
    op.sink = this;
    Status taken = inner_->Submit(op);
    op.sink = taken.ok() ? this : sinks_[&op];
    return taken;
  }
  void OnIoDone(IoOp& op) noexcept override {
    for (const auto& [file, offset] : bad_) {
      if (op.file_index == file && op.offset_bytes <= offset &&
          offset < op.offset_bytes + op.buffer.size()) {
        op.status = Status::Error(StatusCode::kIoError, "a bad sector", EIO);
        std::fill(op.buffer.begin(), op.buffer.end(), std::byte{0});
      }
    }
    op.sink = sinks_[&op];
    op.sink->OnIoDone(op);
  }

  std::unique_ptr<IoRing> inner_;
  std::set<std::pair<std::uint32_t, std::uint64_t>> bad_;
  std::map<IoOp*, IoSink*> sinks_;
};

class StoreCheckTest : public ::testing::Test {
 protected:
  // Checks the store, and mends it if it should.
  StoreFindings Check(bool mends = false) {
    const Result<std::unique_ptr<DriveSet>> drives =
        DriveSet::OpenForReading(sample_.paths(), DriveAccess::kReadAlone);
    EXPECT_OK(drives.status());
    const Result<std::unique_ptr<RocksDatabase>> database =
        RocksDatabase::Open({.folder = sample_.manifest(),
                             .write_buffer_bytes = 64 * kKiB,
                             .is_read_only = !mends,
                             .file_system = nullptr});
    EXPECT_OK(database.status());
    Result<OpenedIoRing> opened = OpenIoRing(
        (*drives)->fds(), {.backend = IoBackend::kAuto, .in_flight_max = in_flight_max_});
    EXPECT_OK(opened.status());
    BadSectorRing ring(std::move(opened->ring));
    for (const auto& [file, offset] : bad_sectors_) {
      ring.AddBadSector(file, offset);
    }
    const StoreReader reader(**drives);
    const SteadyClock clock;
    PayloadCheck payloads({.reader = reader, .ring = ring, .clock = clock});
    StoreCheck check({.reader = reader,
                      .layout = (*drives)->layout(),
                      .database = **database,
                      .payloads = payloads});
    done_bytes_ = 0;
    Result<StoreFindings> findings = check.Run(done_bytes_);
    EXPECT_OK(findings.status());
    if (mends) {
      const Result<StoreCheck::Repair> repair = check.Mend(*findings);
      EXPECT_OK(repair.status());
      repair_ = *repair;
    }
    return std::move(*findings);
  }
  static std::vector<BlockPlace> PlacesOf(const StoreFindings& findings, DamageKind kind) {
    std::vector<BlockPlace> places;
    for (const StoreDamage& damage : findings.damages) {
      if (damage.kind == kind) {
        places.push_back(damage.place);
      }
    }
    return places;
  }
  const PlacedRow& Block(std::uint32_t segment, std::uint32_t number) const {
    return sample_.blocks[segment * kPerSegment + number];
  }
  void Put(const PlacedRow& row) const {
    ManifestBatch batch;
    batch.block_puts = {row};
    sample_.Commit(batch);
  }
  void Put(const SegmentRow& row) const {
    ManifestBatch batch;
    batch.segment_puts = {row};
    sample_.Commit(batch);
  }

  TestFolder folder_;
  SampleStore sample_{{folder_ / "a", folder_ / "b"}};
  std::vector<std::pair<std::uint32_t, std::uint64_t>> bad_sectors_;
  std::uint32_t in_flight_max_ = 16;
  std::atomic<std::uint64_t> done_bytes_ = 0;
  StoreCheck::Repair repair_;
};

TEST_F(StoreCheckTest, FindsNothingInASoundStore) {
  const StoreFindings findings = Check(true);
  EXPECT_EQ(findings.damage_total(), 0U);
  EXPECT_EQ(findings.blocks, 36U);
  EXPECT_EQ(findings.segments, 3U);
  EXPECT_EQ(findings.footers, 2U);
  EXPECT_EQ(findings.block_bytes, 3 * (12 + 4'800U * 66));
  EXPECT_EQ(done_bytes_, findings.block_bytes);
  EXPECT_EQ(repair_.deleted_rows, 0U);
  EXPECT_EQ(sample_.ReadBlocks(), sample_.blocks);
}

TEST_F(StoreCheckTest, FindsEachBlockWithAFlippedBit) {
  for (const PlacedRow& row : sample_.blocks) {
    sample_.Damage(row);
    const StoreFindings findings = Check();
    ASSERT_EQ(PlacesOf(findings, DamageKind::kPayload), std::vector{row.place()});
    ASSERT_EQ(findings.damage_total(), 1U);
    sample_.Damage(row);  // Back again.
  }
  EXPECT_EQ(Check().damage_total(), 0U);
}

// Behind a payload's end there may be anything, up to the page's end.
TEST_F(StoreCheckTest, LooksAtNothingBehindAPayload) {
  const PlacedRow& row = Block(0, 1);
  Overwrite(sample_.FileOf(0), sample_.OffsetOf(0, row.row.page) + row.row.stored_bytes, "rest");
  EXPECT_EQ(Check().damage_total(), 0U);
}

TEST_F(StoreCheckTest, ChecksWithARingThatTakesOneOperation) {
  in_flight_max_ = 1;
  sample_.Damage(Block(1, 7));
  const StoreFindings findings = Check();
  EXPECT_EQ(PlacesOf(findings, DamageKind::kPayload), std::vector{Block(1, 7).place()});
  EXPECT_EQ(findings.damage_total(), 1U);
}

TEST_F(StoreCheckTest, BlamesABadSectorOnItsBlockAlone) {
  bad_sectors_ = {{0, sample_.OffsetOf(0, Block(0, 5).row.page) + 4096}};
  const StoreFindings findings = Check();
  EXPECT_EQ(PlacesOf(findings, DamageKind::kUnreadable), std::vector{Block(0, 5).place()});
  EXPECT_EQ(findings.damage_total(), 1U);
  EXPECT_EQ(done_bytes_, findings.block_bytes);
  ASSERT_EQ(findings.damages.size(), 1U);
  EXPECT_NE(findings.damages[0].how.find("a bad sector"), std::string::npos);
}

TEST_F(StoreCheckTest, FindsDamageBesideABadSector) {
  bad_sectors_ = {{0, sample_.OffsetOf(0, Block(0, 5).row.page)}};
  sample_.Damage(Block(0, 6));
  const StoreFindings findings = Check();
  EXPECT_EQ(PlacesOf(findings, DamageKind::kUnreadable), std::vector{Block(0, 5).place()});
  EXPECT_EQ(PlacesOf(findings, DamageKind::kPayload), std::vector{Block(0, 6).place()});
}

TEST_F(StoreCheckTest, FindsRowsOfNoPresentLife) {
  PlacedRow over = Block(0, 2);
  over.life.generation = 9;
  Put(over);
  PlacedRow clean = Block(0, 3);
  clean.life = {3, 13};
  Put(clean);
  PlacedRow unused = Block(0, 4);
  unused.life = {6, 1};
  Put(unused);
  PlacedRow dropped = Block(0, 5);
  dropped.life = {4'000'000'000U, 1};
  Put(dropped);
  const StoreFindings findings = Check(true);
  EXPECT_EQ(PlacesOf(findings, DamageKind::kOrphan),
            (std::vector{over.place(), clean.place(), unused.place(), dropped.place()}));
  EXPECT_EQ(findings.damage_total(), 4U);
  EXPECT_EQ(repair_.deleted_rows, 4U);
  EXPECT_EQ(sample_.ReadBlocks(), sample_.blocks);
}

TEST_F(StoreCheckTest, FindsRowsThatCannotBe) {
  std::vector<BlockPlace> places;
  for (const std::uint32_t page : {0U, 100U, 101U, 254U, 256U, 4'000'000'000U}) {
    PlacedRow row = Block(2, 11);
    row.row.page = page;
    row.row.stored_bytes = page == 100 ? 0 : row.row.stored_bytes;
    row.row.raw_bytes += page == 101 ? 1 : 0;
    Put(row);
    places.push_back(row.place());
  }
  const StoreFindings findings = Check(true);
  EXPECT_EQ(PlacesOf(findings, DamageKind::kRow), places);
  EXPECT_EQ(findings.damage_total(), 6U);
  EXPECT_EQ(sample_.ReadBlocks(), sample_.blocks);
}

TEST_F(StoreCheckTest, TellsWhichOfTwoOverlappingRowsIsWrong) {
  PlacedRow wrong = Block(2, 4);  // Inside block 11.
  wrong.row.page = Block(2, 11).row.page + 3;
  Put(wrong);
  const StoreFindings findings = Check(true);
  EXPECT_EQ(PlacesOf(findings, DamageKind::kOverlap), std::vector{wrong.place()});
  EXPECT_EQ(PlacesOf(findings, DamageKind::kPayload), std::vector{wrong.place()});
  EXPECT_EQ(sample_.ReadBlocks(), sample_.blocks);
}

TEST_F(StoreCheckTest, FindsDamagedHeadersOfSegmentsThatHoldBlocks) {
  for (std::uint32_t segment = 0; segment < 4; ++segment) {
    Overwrite(sample_.FileOf(segment), sample_.OffsetOf(segment, 0) + 48, "rot");
  }
  const StoreFindings findings = Check(true);
  const std::vector<BlockPlace> places = PlacesOf(findings, DamageKind::kHeader);
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[2], (BlockPlace{.life = {2, 12}, .page = 0}));
  EXPECT_EQ(findings.damage_total(), 3U);
  EXPECT_EQ(sample_.ReadBlocks(), sample_.blocks);
}

TEST_F(StoreCheckTest, TakesALifeWithoutHeaderWhileItHoldsNothing) {
  SegmentRow next = sample_.segments[3];
  next.life = {4, 20};
  next.state = SegmentState::kOpen;
  Put(next);
  next.life = {3, 21};
  Put(next);
  EXPECT_EQ(Check().damage_total(), 0U);
  PlacedRow block = Block(2, 0);
  block.life = next.life;
  Put(block);
  const StoreFindings findings = Check();
  EXPECT_EQ(PlacesOf(findings, DamageKind::kHeader).size(), 1U);
  EXPECT_EQ(PlacesOf(findings, DamageKind::kPayload), std::vector{block.place()});
}

TEST_F(StoreCheckTest, FindsFootersThatAreDamagedOrTellOtherwise) {
  Overwrite(sample_.FileOf(0), sample_.OffsetOf(0, 255) + 48, "rot");
  PlacedRow changed = Block(1, 3);
  changed.row.codec = 1;
  Put(changed);
  const StoreFindings findings = Check(true);
  EXPECT_EQ(PlacesOf(findings, DamageKind::kFooter),
            (std::vector<BlockPlace>{{{0, 10}, 255}, {{1, 11}, 255}}));
  EXPECT_EQ(findings.damage_total(), 2U);
  EXPECT_EQ(repair_.deleted_rows, 0U);
}

TEST_F(StoreCheckTest, TakesARowThatChangedItsFlagsAndOneThatIsGone) {
  PlacedRow changed = Block(0, 3);
  changed.row.flags = BlockRow::kProtected;
  changed.row.tenant = 77;
  Put(changed);
  ManifestBatch batch;
  batch.block_deletes = {Block(0, 4).place(), Block(1, 0).place()};
  sample_.Commit(batch);
  const StoreFindings findings = Check();
  EXPECT_EQ(findings.damage_total(), 0U);
  EXPECT_EQ(findings.blocks, 34U);
}

TEST_F(StoreCheckTest, LeavesEncodedBlocksUnverified) {
  PlacedRow encoded = Block(2, 3);
  encoded.row.codec = 3;
  encoded.row.raw_bytes *= 2;
  Put(encoded);
  const StoreFindings findings = Check();
  EXPECT_EQ(findings.damage_total(), 0U);
  EXPECT_EQ(findings.encoded_blocks, 1U);
  EXPECT_EQ(findings.blocks, 35U);
}

TEST_F(StoreCheckTest, MendsByDeletingDamagedRowsAndNoOthers) {
  const std::set<std::uint32_t> damaged = {1, 13, 14, 25, 26, 27};
  std::vector<PlacedRow> good;
  for (std::uint32_t i = 0; i < sample_.blocks.size(); ++i) {
    if (damaged.contains(i)) {
      sample_.Damage(sample_.blocks[i]);
    } else {
      good.push_back(sample_.blocks[i]);
    }
  }
  EXPECT_EQ(Check(false).count(DamageKind::kPayload), 6U);
  EXPECT_EQ(sample_.ReadBlocks(), sample_.blocks);

  EXPECT_EQ(Check(true).count(DamageKind::kPayload), 6U);
  EXPECT_EQ(repair_.deleted_rows, 6U);
  EXPECT_EQ(repair_.quarantined, std::vector<std::uint32_t>{2}) << "three damaged blocks";
  EXPECT_EQ(sample_.ReadBlocks(), good);

  const StoreFindings again = Check(true);
  EXPECT_EQ(again.damage_total(), 0U);
  EXPECT_TRUE(repair_.quarantined.empty());
}

}  // namespace
}  // namespace kvferry::tiers
