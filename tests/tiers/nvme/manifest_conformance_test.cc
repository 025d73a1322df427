// What every Manifest promises, asked of the one on RocksDB and of the simulated one.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "sim/sim_manifest.h"
#include "tests/support/manifest_batches.h"
#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/rocks_faults.h"
#include "tiers/nvme/rocks_manifest.h"

namespace kvferry::tiers {
namespace {

using testing::DriveFault;
using testing::EndedBatches;
using testing::FaultPlan;
using testing::FaultyFileSystem;
using testing::RowAt;
using testing::ScanAll;
using testing::WaitingBell;

enum class Form { kRocks, kSimulated };

std::string NameOf(const ::testing::TestParamInfo<Form>& info) {
  return info.param == Form::kRocks ? "Rocks" : "Simulated";
}

class ManifestConformanceTest : public ::testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "kvferry-manifest-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    Open(16);
  }
  void TearDown() override {
    manifest_.reset();
    std::filesystem::remove_all(folder_);
  }

  bool is_simulated() const { return GetParam() == Form::kSimulated; }
  // What is open is closed first.
  void Open(std::uint32_t in_flight_max) {
    manifest_.reset();
    if (is_simulated()) {
      sim::SimManifestOptions options;
      options.in_flight_max = in_flight_max;
      auto opened = std::make_unique<sim::SimManifest>(store_, clock_, options);
      simulated_ = opened.get();
      manifest_ = std::move(opened);
      return;
    }
    RocksManifestOptions options;
    options.database.folder = folder_ + "/manifest";
    options.database.file_system = &file_system_;
    options.in_flight_max = in_flight_max;
    options.bell = &bell_;
    Result<std::unique_ptr<RocksManifest>> opened = RocksManifest::Open(options);
    ASSERT_OK(opened);
    manifest_ = *std::move(opened);
  }
  void FailNextBatch() {
    if (is_simulated()) {
      simulated_->InjectAt(simulated_->submitted_count(), sim::SimFault::kBatchError);
    } else {
      plan_.FailAt(1, 1, DriveFault::kIoError);
    }
  }
  void Wait() {
    if (is_simulated()) {
      clock_.Advance(std::chrono::milliseconds(10));
    } else {
      bell_.Wait();
    }
  }
  void Drain() {
    while (manifest_->in_flight() > 0) {
      Wait();
      manifest_->Reap(clock_.Now());
    }
  }
  Status Run(ManifestBatch& batch) {
    batch.sink = &sink_;
    KVFERRY_RETURN_IF_ERROR(manifest_->Submit(batch));
    Drain();
    EXPECT_EQ(sink_.ended.back(), &batch);
    return batch.status;
  }
  std::vector<PlacedRow> Scan() {
    std::vector<PlacedRow> found;
    EXPECT_OK(ScanAll(*manifest_, found, [this] {
      if (!is_simulated()) {
        bell_.Wait();
      }
    }));
    return found;
  }
  std::vector<PlacedRow> ScanAfterReopening() {
    Open(16);
    return Scan();
  }

  std::string folder_;
  ManualClock clock_;
  sim::SimManifestStore store_;
  sim::SimManifest* simulated_ = nullptr;
  FaultPlan plan_;
  FaultyFileSystem file_system_{plan_};
  WaitingBell bell_;
  EndedBatches sink_;
  std::unique_ptr<Manifest> manifest_;
};

TEST_P(ManifestConformanceTest, IsEmptyAtFirst) {
  EXPECT_TRUE(Scan().empty());
  const Result<std::vector<SegmentRow>> segments = manifest_->ReadSegments();
  ASSERT_OK(segments);
  EXPECT_TRUE(segments->empty());
  const Result<std::vector<MetaValue>> values = manifest_->ReadMeta("");
  ASSERT_OK(values);
  EXPECT_TRUE(values->empty());
  EXPECT_EQ(manifest_->refused_row_count(), 0);
}

TEST_P(ManifestConformanceTest, CarriesOutBatchesInTheOrderOfSubmit) {
  std::array<ManifestBatch, 8> batches;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    ManifestBatch& batch = batches.at(i);
    batch.meta_puts = {{"value", std::to_string(i)}};
    batch.is_synced = i % 3 == 0;
    batch.sink = &sink_;
    ASSERT_OK(manifest_->Submit(batch));
  }
  Drain();

  ASSERT_EQ(sink_.ended.size(), batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(sink_.ended[i], &batches.at(i));
    EXPECT_OK(batches.at(i).status);
  }
  Open(16);
  const Result<std::vector<MetaValue>> values = manifest_->ReadMeta("");
  ASSERT_OK(values);
  EXPECT_EQ(*values, (std::vector<MetaValue>{{"value", "7"}}));
}

TEST_P(ManifestConformanceTest, DeletesBeforeItPuts) {
  ManifestBatch first;
  first.block_puts = {RowAt(1, 1, 1), RowAt(1, 1, 2), RowAt(1, 2, 3), RowAt(2, 1, 4)};
  first.meta_puts = {{"a", "1"}, {"b", "2"}};
  ASSERT_OK(Run(first));
  ManifestBatch second;
  second.life_deletes = {{1, 1}};
  second.block_deletes = {RowAt(2, 1, 4).place()};
  second.meta_deletes = {"a", "b"};
  second.block_puts = {RowAt(1, 1, 2)};
  second.meta_puts = {{"b", "3"}};
  ASSERT_OK(Run(second));

  EXPECT_EQ(ScanAfterReopening(), (std::vector<PlacedRow>{RowAt(1, 1, 2), RowAt(1, 2, 3)}));
  const Result<std::vector<MetaValue>> values = manifest_->ReadMeta("");
  ASSERT_OK(values);
  EXPECT_EQ(*values, (std::vector<MetaValue>{{"b", "3"}}));
}

// The first and the last of everything, where an end of the range could be off by one.
TEST_P(ManifestConformanceTest, DeletesOneLifeAndNoNeighbour) {
  constexpr std::uint32_t kLastPage = std::numeric_limits<std::uint32_t>::max();
  constexpr std::uint64_t kLastLife = std::numeric_limits<std::uint64_t>::max();
  const std::vector<PlacedRow> kept = {RowAt(6, kLastLife, kLastPage),
                                       RowAt(7, kLastLife - 1, kLastPage), RowAt(8, 0, 0)};
  ManifestBatch first;
  first.block_puts = kept;
  first.block_puts.push_back(RowAt(7, kLastLife, 0));
  first.block_puts.push_back(RowAt(7, kLastLife, kLastPage));
  ASSERT_OK(Run(first));
  ManifestBatch second;
  second.life_deletes = {{7, kLastLife}, {9, 9}};
  ASSERT_OK(Run(second));

  EXPECT_EQ(ScanAfterReopening(), kept);
}

TEST_P(ManifestConformanceTest, KeepsOneRowASegment) {
  SegmentRow row;
  row.life = {3, 17};
  row.state = SegmentState::kOpen;
  ManifestBatch batch;
  batch.segment_puts = {row};
  ASSERT_OK(Run(batch));
  row.life.generation = 18;
  row.state = SegmentState::kSealed;
  row.stream = SegmentStream::kProtected;
  row.used_pages = 99;
  row.live_bytes = 1'000'000'000'000;
  row.opened_unix_ms = -5;
  SegmentRow before = row;
  before.life.segment = 2;
  batch.segment_puts = {row, before};
  ASSERT_OK(Run(batch));

  for (int i = 0; i < 2; ++i) {
    const Result<std::vector<SegmentRow>> segments = manifest_->ReadSegments();
    ASSERT_OK(segments);
    EXPECT_EQ(*segments, (std::vector<SegmentRow>{before, row}));
    Open(16);
  }
}

TEST_P(ManifestConformanceTest, ReadsValuesByPrefix) {
  ManifestBatch batch;
  batch.meta_puts = {{"session/2", std::string("y\0z", 3)}, {"session/1", ""}, {"tenants", "z"}};
  ASSERT_OK(Run(batch));
  Open(16);
  const Result<std::vector<MetaValue>> sessions = manifest_->ReadMeta("session/");
  ASSERT_OK(sessions);
  EXPECT_EQ(*sessions,
            (std::vector<MetaValue>{{"session/1", ""}, {"session/2", std::string("y\0z", 3)}}));
}

TEST_P(ManifestConformanceTest, ScansWhatWasThereAtOpenInOrder) {
  // More than one piece and more than is read ahead.
  constexpr std::uint32_t kRows = 15'000;
  ManifestBatch batch;
  for (std::uint32_t i = 0; i < kRows; ++i) {
    batch.block_puts.push_back(RowAt(i % 3, 300 - (i % 5), i));
  }
  ASSERT_OK(Run(batch));
  Open(16);
  ManifestBatch later;
  later.block_puts = {RowAt(900, 1, 1)};
  later.life_deletes = {{2, 300}};
  ASSERT_OK(Run(later));

  const auto is_before = [](const PlacedRow& a, const PlacedRow& b) {
    return a.place() < b.place();
  };
  std::sort(batch.block_puts.begin(), batch.block_puts.end(), is_before);
  EXPECT_TRUE(Scan() == batch.block_puts);
}

TEST_P(ManifestConformanceTest, RefusesMoreThanItHolds) {
  Open(1);
  ManifestBatch first;
  ManifestBatch second;
  first.sink = &sink_;
  second.sink = &sink_;
  ASSERT_OK(manifest_->Submit(first));
  EXPECT_STATUS(manifest_->Submit(second), StatusCode::kResourceExhausted);
  Drain();
  EXPECT_OK(Run(second));
}

TEST_P(ManifestConformanceTest, FailsWhatIsBehindAFailedBatchAndReopens) {
  ManifestBatch synced;
  synced.block_puts = {RowAt(1, 1, 0)};
  synced.is_synced = true;
  ASSERT_OK(Run(synced));
  std::array<ManifestBatch, 3> batches;
  FailNextBatch();
  for (std::uint32_t i = 0; i < batches.size(); ++i) {
    batches.at(i).block_puts = {RowAt(1, 1, i + 1)};
    batches.at(i).is_synced = true;
    batches.at(i).sink = &sink_;
    ASSERT_OK(manifest_->Submit(batches.at(i)));
  }
  Drain();

  EXPECT_STATUS(batches[0].status, StatusCode::kIoError);
  EXPECT_NE(batches[0].status.native_code(), 0);
  EXPECT_STATUS(batches[1].status, StatusCode::kUnavailable);
  EXPECT_STATUS(batches[2].status, StatusCode::kUnavailable);
  Status again = manifest_->Submit(batches[2]);
  while (again.code() == StatusCode::kUnavailable) {
    Wait();
    again = manifest_->Submit(batches[2]);
  }
  ASSERT_OK(again);
  Drain();
  EXPECT_OK(batches[2].status);
  std::vector<PlacedRow> found = ScanAfterReopening();
  std::erase(found, RowAt(1, 1, 1));  // May be there: its batch failed.
  EXPECT_EQ(found, (std::vector<PlacedRow>{RowAt(1, 1, 0), RowAt(1, 1, 3)}));
}

TEST_P(ManifestConformanceTest, EndsWhatIsInFlightWhenItGoes) {
  std::array<ManifestBatch, 4> batches;
  for (std::uint32_t i = 0; i < batches.size(); ++i) {
    batches.at(i).block_puts = {RowAt(1, 1, i)};
    batches.at(i).sink = &sink_;
    ASSERT_OK(manifest_->Submit(batches.at(i)));
  }
  manifest_.reset();
  ASSERT_EQ(sink_.ended.size(), batches.size());
  std::vector<PlacedRow> kept;
  for (const ManifestBatch& batch : batches) {
    if (batch.status.ok()) {
      kept.push_back(batch.block_puts.front());
    }
  }
  EXPECT_EQ(ScanAfterReopening(), kept);
}

INSTANTIATE_TEST_SUITE_P(BothForms,
                         ManifestConformanceTest,
                         ::testing::Values(Form::kRocks, Form::kSimulated),
                         NameOf);

}  // namespace
}  // namespace kvferry::tiers
