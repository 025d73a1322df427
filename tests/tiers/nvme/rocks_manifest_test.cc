// RocksManifest over failing drives, after a kill, and over files that were changed.
#include "tiers/nvme/rocks_manifest.h"

#include <sys/stat.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/child_process.h"
#include "base/log.h"
#include "tests/support/manifest_batches.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/rocks_faults.h"

namespace kvferry::tiers {
namespace {

using testing::DriveFault;
using testing::EndedBatches;
using testing::FaultPlan;
using testing::FaultyFileSystem;
using testing::RowAt;
using testing::ScanAll;
using testing::WaitingBell;

class RocksManifestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kNone);
    std::string pattern = ::testing::TempDir() + "kvferry-rocks-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ + "/manifest";
  }
  void TearDown() override {
    manifest_.reset();
    std::filesystem::remove_all(root_);
    SetLogLevel(LogLevel::kWarning);
  }

  RocksManifestOptions Options() {
    RocksManifestOptions options;
    options.database.folder = folder_;
    options.database.file_system = &file_system_;
    options.database.write_buffer_bytes = 64 * kKiB;  // The least that RocksDB takes.
    options.reopen_pause_min = std::chrono::microseconds(1);
    options.reopen_pause_max = std::chrono::milliseconds(1);
    options.bell = &bell_;
    return options;
  }
  Status Open() {
    manifest_.reset();
    KVFERRY_ASSIGN_OR_RETURN(manifest_, RocksManifest::Open(Options()));
    return Status::Ok();
  }
  void Drain() {
    while (manifest_->in_flight() > 0) {
      bell_.Wait();
      manifest_->Reap(Instant());
    }
  }
  // Waits until the manifest takes it.
  Status Run(ManifestBatch& batch) {
    batch.sink = &sink_;
    Status taken = manifest_->Submit(batch);
    while (taken.code() == StatusCode::kUnavailable) {
      bell_.Wait();
      taken = manifest_->Submit(batch);
    }
    KVFERRY_RETURN_IF_ERROR(taken);
    Drain();
    return batch.status;
  }
  // A synced batch of one row and a value that fills the write buffer soon.
  Status RunRow(std::uint32_t page) {
    ManifestBatch batch;
    batch.block_puts = {RowAt(1, 1, page)};
    batch.meta_puts = {{std::to_string(page), std::string(16 * kKiB, 'x')}};
    batch.is_synced = true;
    return Run(batch);
  }
  std::set<std::uint32_t> PagesAfterReopening() {
    std::set<std::uint32_t> pages;
    std::vector<PlacedRow> found;
    EXPECT_OK(Open());
    EXPECT_OK(ScanAll(*manifest_, found, [this] { bell_.Wait(); }));
    for (const PlacedRow& placed : found) {
      EXPECT_EQ(placed, RowAt(1, 1, placed.row.page));
      pages.insert(placed.row.page);
    }
    return pages;
  }
  // Rows while the drive fails `count` changes from number `first` on, and some after it is well.
  void RunWithFault(std::int64_t first, std::int64_t count, DriveFault fault) {
    constexpr std::uint32_t kRows = 12;
    manifest_.reset();
    std::filesystem::remove_all(folder_);
    plan_.Heal();
    ASSERT_OK(Open());
    std::set<std::uint32_t> acknowledged;
    plan_.FailAt(first, count, fault);
    for (std::uint32_t page = 0; page < kRows; ++page) {
      if (RunRow(page).ok()) {
        acknowledged.insert(page);
      }
    }
    plan_.Heal();
    RunRow(kRows).IgnoreError();  // The background's error may be this batch's.
    ASSERT_OK(RunRow(kRows + 1));
    acknowledged.insert(kRows + 1);

    const std::set<std::uint32_t> found = PagesAfterReopening();
    for (const std::uint32_t page : acknowledged) {
      EXPECT_TRUE(found.contains(page)) << "page " << page << " with fault at " << first;
    }
  }

  std::string root_;
  std::string folder_;
  FaultPlan plan_;
  FaultyFileSystem file_system_{plan_};
  WaitingBell bell_;
  EndedBatches sink_;
  std::unique_ptr<RocksManifest> manifest_;
};

TEST_F(RocksManifestTest, IsClosedToOthers) {
  ASSERT_OK(Open());
  struct stat found = {};
  ASSERT_EQ(::stat(folder_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700U);
  manifest_.reset();

  ASSERT_EQ(::chmod(folder_.c_str(), 0750), 0);
  EXPECT_STATUS(Open(), StatusCode::kInvalidArgument);
  ASSERT_EQ(::chmod(folder_.c_str(), 0700), 0);
  EXPECT_OK(Open());
}

TEST_F(RocksManifestTest, IsOpenOnceOnly) {
  ASSERT_OK(Open());
  const Result<std::unique_ptr<RocksManifest>> second = RocksManifest::Open(Options());
  EXPECT_STATUS(second, StatusCode::kIoError);
}

TEST_F(RocksManifestTest, SyncsWhatABatchWithoutRowsAsksFor) {
  ASSERT_OK(Open());
  ManifestBatch unsynced;
  unsynced.block_puts = {RowAt(1, 1, 1)};
  ASSERT_OK(Run(unsynced));
  plan_.FailAt(1, 1'000, DriveFault::kIoError);
  ManifestBatch barrier;
  barrier.is_synced = true;
  EXPECT_STATUS(Run(barrier), StatusCode::kIoError);
  plan_.Heal();
}

TEST_F(RocksManifestTest, LosesNoAcknowledgedRowWhicheverWriteFails) {
  const std::uint32_t step = testing::kIsSanitized ? 7 : 3;
  for (std::int64_t first = 1; first <= 60; first += step) {
    const DriveFault fault = first % 2 == 0 ? DriveFault::kNoSpace : DriveFault::kIoError;
    RunWithFault(first, 1, fault);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "first " << first;
  }
}

TEST_F(RocksManifestTest, LosesNoAcknowledgedRowWhileTheDriveStaysFull) {
  for (std::int64_t first = 1; first <= 60; first += 15) {
    RunWithFault(first, 25, DriveFault::kNoSpace);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "first " << first;
  }
}

TEST_F(RocksManifestTest, OpensAgainWhicheverWriteOfAnOpenFailed) {
  ASSERT_OK(Open());
  for (std::uint32_t page = 0; page < 3; ++page) {
    ASSERT_OK(RunRow(page));
  }
  bool has_opened = false;
  for (std::int64_t first = 1; !has_opened; ++first) {
    ASSERT_LT(first, 100);
    manifest_.reset();
    plan_.FailAt(first, 1, DriveFault::kNoSpace);
    const std::int64_t failed_before = plan_.failed_count();
    const Status status = Open();
    has_opened = plan_.failed_count() == failed_before;
    plan_.Heal();
    EXPECT_EQ(status.ok(), has_opened) << "first " << first << ": " << status.ToString();
    EXPECT_EQ(PagesAfterReopening(), (std::set<std::uint32_t>{0, 1, 2})) << "first " << first;
  }
}

TEST_F(RocksManifestTest, HasWhatEndedWellBeforeAKill) {
  ChildCommand command;
  command.arguments = {KVFERRY_CRASH_CHILD, folder_};
  const Result<ChildOutcome> outcome = RunChild(command);
  ASSERT_OK(outcome);
  ASSERT_EQ(outcome->signal, SIGKILL) << outcome->error_output;
  std::set<std::uint32_t> told;
  std::istringstream lines(outcome->output);
  for (std::uint32_t page = 0; lines >> page;) {
    told.insert(page);
  }
  EXPECT_EQ(told.size(), 40);

  EXPECT_EQ(PagesAfterReopening(), told);
}

TEST_F(RocksManifestTest, RefusesToStartAfreshOverOldFiles) {
  ASSERT_OK(Open());
  ASSERT_OK(RunRow(0));
  manifest_.reset();
  std::filesystem::rename(folder_ + "/CURRENT", root_ + "/CURRENT");
  EXPECT_STATUS(Open(), StatusCode::kDataLoss);
  std::filesystem::rename(root_ + "/CURRENT", folder_ + "/CURRENT");
  EXPECT_EQ(PagesAfterReopening(), (std::set<std::uint32_t>{0}));
}

// The files of a closed manifest, with rows in tables and in the log, and one bit changed.
class ChangedManifestTest : public RocksManifestTest {
 protected:
  static constexpr std::uint32_t kRows = 10;

  void SetUp() override {
    RocksManifestTest::SetUp();
    ASSERT_OK(Open());
    for (std::uint32_t page = 0; page < kRows; ++page) {
      ASSERT_OK(RunRow(page));
    }
    manifest_.reset();
    std::filesystem::rename(folder_, root_ + "/whole");
  }
  // What of RowAt(1, 1, *) is there; anything else is a failure.
  void OpenChanged(const std::string& name, std::uint64_t at) {
    manifest_.reset();
    std::filesystem::remove_all(folder_);
    std::filesystem::copy(root_ + "/whole", folder_);
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    std::fstream file(folder_ + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(static_cast<unsigned>(byte) ^ 0x10U));
    file.close();
    ASSERT_TRUE(file) << name;

    std::vector<PlacedRow> found;
    Status status = Open();
    if (status.ok()) {
      status = ScanAll(*manifest_, found, [this] { bell_.Wait(); });
    }
    if (!status.ok()) {
      ++refused_count_;
      EXPECT_STATUS(status, StatusCode::kDataLoss);
    }
    // An unbroken run from the first, of rows that were written.
    for (std::uint32_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i], RowAt(1, 1, i));
    }
  }
  void ChangeEverywhere(const std::string& extension_or_stem, std::uint64_t steps) {
    for (const auto& entry : std::filesystem::directory_iterator(root_ + "/whole")) {
      const std::string name = entry.path().filename().string();
      const std::uint64_t size = entry.file_size();
      if (name.find(extension_or_stem) == std::string::npos || size == 0) {
        continue;
      }
      for (std::uint64_t i = 0; i < steps; ++i) {
        SCOPED_TRACE(name + " at " + std::to_string(i * size / steps));
        OpenChanged(name, i * size / steps);
      }
    }
  }

  int refused_count_ = 0;
};

TEST_F(ChangedManifestTest, IsRefusedForItsListOfTables) {
  ChangeEverywhere("MANIFEST", 8);
  EXPECT_GT(refused_count_, 0);
}

TEST_F(ChangedManifestTest, IsRefusedForItsTables) {
  ChangeEverywhere(".sst", 2);
  EXPECT_GT(refused_count_, 0);
}

TEST_F(ChangedManifestTest, GivesOnlyWrittenRowsOfItsLog) {
  ChangeEverywhere(".log", 8);
}

}  // namespace
}  // namespace kvferry::tiers
