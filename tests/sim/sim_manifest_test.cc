// SimManifest: batches in order, what survives a power cut, and failures that reopen the store.
#include "sim/sim_manifest.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::sim {
namespace {

using tiers::Manifest;
using tiers::ManifestBatch;
using tiers::MetaValue;
using tiers::PlacedRow;
using tiers::SegmentRow;

class CountingSink final : public tiers::ManifestSink {
 public:
  void OnManifestDone(ManifestBatch& batch) noexcept override { ended.push_back(&batch); }
  std::vector<ManifestBatch*> ended;
};

PlacedRow RowAt(std::uint32_t segment, std::uint64_t generation, std::uint32_t page) {
  PlacedRow placed;
  placed.life = {segment, generation};
  placed.row.page = page;
  placed.row.stored_bytes = page + 1;
  return placed;
}

class SimManifestTest : public ::testing::Test {
 protected:
  SimManifestTest() { Open(SimManifestOptions()); }

  void Open(const SimManifestOptions& options) {
    manifest_.reset();
    manifest_.emplace(store_, clock_, options);
  }
  ManifestBatch BatchOf(std::uint32_t page, bool is_synced) {
    ManifestBatch batch;
    batch.block_puts.push_back(RowAt(1, 1, page));
    batch.is_synced = is_synced;
    batch.sink = &sink_;
    return batch;
  }
  void Drain() {
    while (const std::optional<Instant> next = manifest_->NextEventTime()) {
      clock_.MoveTo(std::max(clock_.Now(), *next));
      manifest_->Reap(clock_.Now());
    }
  }
  Status Run(ManifestBatch& batch) {
    KVFERRY_RETURN_IF_ERROR(manifest_->Submit(batch));
    Drain();
    EXPECT_EQ(sink_.ended.back(), &batch);
    return batch.status;
  }
  std::set<std::uint32_t> Pages() const {
    std::set<std::uint32_t> pages;
    for (const auto& [place, row] : store_.rows().blocks) {
      pages.insert(place.page);
    }
    return pages;
  }

  ManualClock clock_;
  SimManifestStore store_;
  CountingSink sink_;
  std::optional<SimManifest> manifest_;
};

TEST_F(SimManifestTest, AppliesABatchWhenItEnds) {
  ManifestBatch batch = BatchOf(3, true);
  ASSERT_OK(manifest_->Submit(batch));
  EXPECT_EQ(manifest_->Reap(clock_.Now()), 0);
  EXPECT_TRUE(Pages().empty());
  EXPECT_EQ(manifest_->in_flight(), 1);

  Drain();

  EXPECT_EQ(sink_.ended.size(), 1);
  EXPECT_OK(batch.status);
  EXPECT_EQ(Pages(), (std::set<std::uint32_t>{3}));
}

TEST_F(SimManifestTest, DeletesBeforeItPuts) {
  ManifestBatch first;
  first.sink = &sink_;
  first.block_puts = {RowAt(1, 1, 1), RowAt(1, 1, 2), RowAt(1, 2, 3), RowAt(2, 1, 4)};
  first.meta_puts = {{"a", "1"}, {"b", "2"}};
  ASSERT_OK(Run(first));

  ManifestBatch second;
  second.sink = &sink_;
  second.life_deletes = {{1, 1}};
  second.block_deletes = {RowAt(2, 1, 4).place()};
  second.meta_deletes = {"a"};
  second.block_puts = {RowAt(1, 1, 2)};
  ASSERT_OK(Run(second));

  EXPECT_EQ(Pages(), (std::set<std::uint32_t>{2, 3}));
  const Result<std::vector<MetaValue>> meta = manifest_->ReadMeta("");
  ASSERT_OK(meta);
  EXPECT_EQ(*meta, (std::vector<MetaValue>{{"b", "2"}}));
}

TEST_F(SimManifestTest, ReadsValuesByPrefix) {
  ManifestBatch batch;
  batch.sink = &sink_;
  batch.meta_puts = {{"session/1", "x"}, {"session/2", "y"}, {"tenants", "z"}, {"a", "w"}};
  ASSERT_OK(Run(batch));
  const Result<std::vector<MetaValue>> sessions = manifest_->ReadMeta("session/");
  ASSERT_OK(sessions);
  EXPECT_EQ(*sessions, (std::vector<MetaValue>{{"session/1", "x"}, {"session/2", "y"}}));
}

TEST_F(SimManifestTest, ScansWhatWasThereAtOpenInPieces) {
  ManifestBatch batch;
  batch.sink = &sink_;
  for (std::uint32_t page = 0; page < 100; ++page) {
    batch.block_puts.push_back(RowAt(1, 1, page));
  }
  SegmentRow segment;
  segment.life = {1, 1};
  batch.segment_puts = {segment};
  ASSERT_OK(Run(batch));
  Open(SimManifestOptions());
  ManifestBatch later = BatchOf(100, false);
  ASSERT_OK(Run(later));

  const Result<std::vector<SegmentRow>> segments = manifest_->ReadSegments();
  ASSERT_OK(segments);
  EXPECT_EQ(*segments, std::vector<SegmentRow>{segment});
  std::vector<PlacedRow> found;
  std::array<PlacedRow, 16> rows;
  for (bool is_last = false; !is_last;) {
    const Result<Manifest::ScanPiece> piece = manifest_->ScanNext(rows);
    ASSERT_OK(piece);
    is_last = piece->is_last;
    for (std::size_t i = 0; i < piece->row_count; ++i) {
      found.push_back(rows.at(i));
    }
  }
  EXPECT_EQ(found, batch.block_puts);
}

TEST_F(SimManifestTest, RefusesMoreThanItHolds) {
  SimManifestOptions options;
  options.in_flight_max = 1;
  Open(options);
  ManifestBatch first = BatchOf(1, false);
  ManifestBatch second = BatchOf(2, false);
  ASSERT_OK(manifest_->Submit(first));
  EXPECT_STATUS(manifest_->Submit(second), StatusCode::kResourceExhausted);
  Drain();
  EXPECT_OK(Run(second));
}

// A power cut leaves what was synced, with all before it, and of the rest an unbroken run.
TEST_F(SimManifestTest, LosesOnlyUnsyncedBatchesFromTheEnd) {
  std::set<std::size_t> lengths;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    store_ = SimManifestStore();
    Open(SimManifestOptions());
    for (std::uint32_t page = 0; page < 8; ++page) {
      ManifestBatch batch = BatchOf(page, page == 3);
      ASSERT_OK(Run(batch));
    }
    Random random(seed);
    manifest_->PowerCut(random);
    const std::set<std::uint32_t> pages = Pages();
    ASSERT_GE(pages.size(), 4) << "seed " << seed;
    EXPECT_EQ(*pages.rbegin(), pages.size() - 1) << "seed " << seed;
    lengths.insert(pages.size());
  }
  EXPECT_EQ(lengths, (std::set<std::size_t>{4, 5, 6, 7, 8}));
}

TEST_F(SimManifestTest, EndsWhatIsInFlightAtAPowerCut) {
  ManifestBatch batch = BatchOf(1, true);
  ASSERT_OK(manifest_->Submit(batch));
  Random random(1);
  manifest_->PowerCut(random);
  EXPECT_EQ(manifest_->Reap(clock_.Now()), 1);
  EXPECT_STATUS(batch.status, StatusCode::kIoError);
}

TEST_F(SimManifestTest, ReopensAfterAFailedBatchAndKeepsWhatWasSynced) {
  ManifestBatch synced = BatchOf(0, true);
  ASSERT_OK(Run(synced));
  manifest_->InjectAt(1, SimFault::kBatchError);
  ManifestBatch failing = BatchOf(1, true);
  ManifestBatch behind = BatchOf(2, true);
  ASSERT_OK(manifest_->Submit(failing));
  ASSERT_OK(manifest_->Submit(behind));
  Drain();

  EXPECT_STATUS(failing.status, StatusCode::kIoError);
  EXPECT_STATUS(behind.status, StatusCode::kUnavailable);
  EXPECT_STATUS(manifest_->Submit(behind), StatusCode::kUnavailable);
  EXPECT_TRUE(Pages().contains(0));
  EXPECT_FALSE(Pages().contains(2));
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_OK(Run(behind));
}

TEST_F(SimManifestTest, EndsWhatIsInFlightWhenItGoes) {
  ManifestBatch first = BatchOf(0, false);
  ManifestBatch second = BatchOf(1, false);
  ASSERT_OK(manifest_->Submit(first));
  ASSERT_OK(manifest_->Submit(second));
  manifest_.reset();
  EXPECT_EQ(sink_.ended, (std::vector<ManifestBatch*>{&first, &second}));
  EXPECT_EQ(Pages().contains(0), first.status.ok());
  EXPECT_EQ(Pages().contains(1), second.status.ok());
}

}  // namespace
}  // namespace kvferry::sim
