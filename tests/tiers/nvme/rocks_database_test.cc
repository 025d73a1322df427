// RocksDatabase read-only: it sees what a writer has, beside it, and leaves every file alone.
#include "tiers/nvme/rocks_database.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/log.h"
#include "tests/support/manifest_batches.h"
#include "tests/tiers/nvme/drive_samples.h"

namespace kvferry::tiers {
namespace {

using kvferry::testing::RowAt;

class RocksDatabaseTest : public ::testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kNone); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  Result<std::unique_ptr<RocksDatabase>> Open(bool is_read_only) {
    return RocksDatabase::Open({.folder = manifest_,
                                .write_buffer_bytes = 64 * kKiB,
                                .is_read_only = is_read_only,
                                .file_system = nullptr});
  }
  std::map<std::string, std::string> Files() {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(manifest_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path().filename()] = std::string(std::istreambuf_iterator<char>(file), {});
    }
    return files;
  }
  static std::size_t RowsOf(RocksDatabase& database) {
    EXPECT_OK(database.StartScan(nullptr));
    const Result<RocksDatabase::ScanPiece> piece = database.ScanNext(100'000);
    EXPECT_OK(piece.status());
    return piece->rows.size();
  }

  testing::TestFolder folder_;
  std::string manifest_ = folder_ / "manifest";
};

TEST_F(RocksDatabaseTest, ReadsBesideAWriterAsOfItsOpening) {
  const Result<std::unique_ptr<RocksDatabase>> writer = Open(false);
  ASSERT_OK(writer.status());
  ManifestBatch batch;
  batch.is_synced = true;
  std::size_t row_count = 0;
  // Across flushes and compactions, which remove logs and files while they are being read.
  for (std::uint64_t generation = 1; generation <= 60; ++generation) {
    batch.Clear();
    for (std::uint32_t page = 1; page <= 100; ++page) {
      batch.block_puts.push_back(RowAt(1, generation, page));
    }
    ASSERT_OK((*writer)->Write(batch));
    row_count += 100;
    const Result<std::unique_ptr<RocksDatabase>> reader = Open(true);
    ASSERT_OK(reader.status());
    ASSERT_EQ(RowsOf(**reader), row_count);
  }
  const Result<std::unique_ptr<RocksDatabase>> reader = Open(true);
  ASSERT_OK(reader.status());
  ASSERT_OK((*writer)->Write(batch));
  batch.block_puts = {RowAt(2, 1, 1)};
  ASSERT_OK((*writer)->Write(batch));
  EXPECT_EQ(RowsOf(**reader), row_count);
  EXPECT_EQ(RowsOf(**writer), row_count + 1);
}

TEST_F(RocksDatabaseTest, LeavesEveryFileAloneWhenItOnlyReads) {
  {
    const Result<std::unique_ptr<RocksDatabase>> writer = Open(false);
    ASSERT_OK(writer.status());
    ManifestBatch batch;
    batch.block_puts = {RowAt(2, 1, 1)};
    batch.meta_puts = {{"stats/x", "1"}};
    ASSERT_OK((*writer)->Write(batch));
  }
  {
    const std::map<std::string, std::string> before = Files();
    const Result<std::unique_ptr<RocksDatabase>> reader = Open(true);
    ASSERT_OK(reader.status());
    EXPECT_EQ(RowsOf(**reader), 1U);
    const Result<std::vector<MetaValue>> values = (*reader)->ReadMeta("stats/");
    ASSERT_OK(values.status());
    ASSERT_EQ(values->size(), 1U);
    EXPECT_EQ((*values)[0].name, "stats/x");
    EXPECT_TRUE(before.contains("CURRENT"));
    EXPECT_EQ(Files(), before);
    const Result<std::unique_ptr<RocksDatabase>> writer = Open(false);
    EXPECT_OK(writer.status());  // A reader holds no lock.
  }
}

TEST_F(RocksDatabaseTest, MakesNothingWhereThereIsNothing) {
  const Status none = Open(true).status();
  EXPECT_STATUS(none, StatusCode::kDataLoss);
  EXPECT_EQ(none.native_code(), ENOENT);
  EXPECT_FALSE(std::filesystem::exists(manifest_));
}

}  // namespace
}  // namespace kvferry::tiers
