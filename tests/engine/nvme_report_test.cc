// NvmeReport: bytes by day, over restarts, and the times of reads by drive.
#include "engine/nvme_report.h"

#include <gtest/gtest.h>

#include "sim/sim_manifest.h"
#include "tests/support/status_matchers.h"

namespace kvferry::engine {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;

Instant At(std::int64_t ms) {
  return Instant(std::chrono::milliseconds(ms));
}

NvmeReport::Options OnDay(std::int64_t day) {
  return {.drive_count = 2, .write_bytes_per_day = 500, .unix_ms_minus_now = day * kDayMs};
}

TEST(NvmeReportTest, CountsAnewEachDay) {
  NvmeReport report(OnDay(20'000));
  report.NoteWritten(At(1), 100);
  report.NoteWritten(At(kDayMs - 1), 10);
  EXPECT_EQ(report.bytes_of_day(), 110U);
  EXPECT_EQ(report.WritesText(), R"({"unix_day":20000,"bytes":110,"budget_bytes_per_day":500})");

  report.NoteWritten(At(kDayMs), 7);
  EXPECT_EQ(report.bytes_of_day(), 7U);
}

// A process that ends in the middle of a day must not double its budget for whoever looks.
TEST(NvmeReportTest, GoesOnWithTheDayAfterARestart) {
  NvmeReport before(OnDay(20'000));
  before.NoteWritten(At(1), 100);
  sim::SimManifestStore store;
  tiers::ManifestBatch batch;
  batch.meta_puts.push_back({"stats/writes", before.WritesText()});
  batch.meta_puts.push_back({"stats/written", "no JSON"});
  store.Apply(batch);
  ManualClock clock{At(2)};
  sim::SimManifest manifest(store, clock, sim::SimManifestOptions());

  NvmeReport after(OnDay(20'000));
  ASSERT_OK(after.Load(manifest));
  after.NoteWritten(At(5), 1);
  EXPECT_EQ(after.bytes_of_day(), 101U);
}

TEST(NvmeReportTest, TellsDrivesApart) {
  NvmeReport report(OnDay(1));
  report.NoteRead(1, std::chrono::microseconds(90));
  report.NoteRead(1, std::chrono::microseconds(100));
  EXPECT_EQ(report.DrivesText(), R"([{"reads":0,"p50_us":0,"p99_us":0,"max_us":0},)"
                                 R"({"reads":2,"p50_us":90,"p99_us":100,"max_us":100}])");
  EXPECT_LT(report.next_deadline(), Instant::max());
}

TEST(NvmeReportTest, HasNothingToTellWhereNothingHappened) {
  const NvmeReport report(OnDay(1));
  EXPECT_EQ(report.next_deadline(), Instant::max());
}

}  // namespace
}  // namespace kvferry::engine
