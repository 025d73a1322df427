// RocksDatabase over damaged files: a row that comes back is one that was written, whatever bit of
// which file has changed.
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/log.h"
#include "base/random.h"
#include "stress/memory_files.h"
#include "stress/rocks_memory_files.h"
#include "tests/support/status_matchers.h"
#include "tiers/nvme/rocks_database.h"

namespace kvferry::stress {
namespace {

constexpr std::uint32_t kBatches = 40;
constexpr std::uint32_t kRowsOfBatch = 10;
constexpr int kFlips = 500;

class ManifestDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "kvferry_damage_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    options_.folder = pattern;
    options_.write_buffer_bytes = 64 << 10;
    options_.file_system = &rocks_files_.file_system();
    SetLogLevel(LogLevel::kError);  // RocksDB tells of each bit that it finds.
  }
  void TearDown() override {
    SetLogLevel(LogLevel::kWarning);
    std::filesystem::remove_all(options_.folder);
  }

  // Half of the rows in a table, half in a log.
  void WriteRows() {
    for (std::uint32_t part = 0; part < 2; ++part) {
      const auto database = tiers::RocksDatabase::Open(options_);
      ASSERT_OK(database);
      for (std::uint32_t i = 0; i < kBatches; ++i) {
        tiers::ManifestBatch batch;
        batch.is_synced = true;
        for (std::uint32_t row = 0; row < kRowsOfBatch; ++row) {
          batch.block_puts.push_back(RowOf(part * kBatches + i, row + 1));
          written_[batch.block_puts.back().place()] = batch.block_puts.back().row;
        }
        ASSERT_OK((*database)->Write(batch));
      }
    }
  }
  static tiers::PlacedRow RowOf(std::uint32_t segment, std::uint32_t page) {
    tiers::PlacedRow placed;
    placed.life = {segment, segment + 1U};
    placed.row.page = page;
    placed.row.stored_bytes = 4'096;
    placed.row.raw_bytes = 4'096;
    SplitMix64 generator(segment * 1'000U + page);
    for (std::byte& byte : placed.row.key.bytes) {
      byte = std::byte{static_cast<std::uint8_t>(generator.Next())};
    }
    return placed;
  }
  // How many rows come back; a wrong one fails the test. Nothing: the files are refused.
  std::optional<std::size_t> RowsFound() {
    const auto database = tiers::RocksDatabase::Open(options_);
    if (!database.ok() || !(*database)->StartScan(nullptr).ok()) {
      return std::nullopt;
    }
    std::size_t found = 0;
    while (true) {
      const auto piece = (*database)->ScanNext(100);
      if (!piece.ok()) {
        return std::nullopt;
      }
      for (const tiers::PlacedRow& placed : piece->rows) {
        ++found;
        const auto row = written_.find(placed.place());
        EXPECT_TRUE(row != written_.end() && row->second.key == placed.row.key &&
                    row->second.stored_bytes == placed.row.stored_bytes);
      }
      if (piece->is_last) {
        return found;
      }
    }
  }

  MemoryFiles files_;
  RocksMemoryFiles rocks_files_{files_};
  tiers::RocksDatabaseOptions options_;
  std::map<tiers::BlockPlace, tiers::BlockRow> written_;
};

TEST_F(ManifestDamageTest, NoFlippedBitMakesAWrongRow) {
  WriteRows();
  ASSERT_FALSE(HasFatalFailure());
  files_.LoseNow();
  ASSERT_EQ(RowsFound(), written_.size());
  files_.Keep();
  Random random(1);
  int refused = 0;
  int fewer = 0;

  for (int i = 0; i < kFlips; ++i) {
    files_.LoseNow();
    const std::vector<std::string> names = files_.Names();
    const MemoryFiles::FileId file = *files_.Find(names[random.Below(names.size())]);
    if (files_.SizeOf(file) > 0) {
      files_.FlipBit(file, random.Below(files_.SizeOf(file) * 8));
      const std::optional<std::size_t> found = RowsFound();
      refused += found ? 0 : 1;
      fewer += found && *found < written_.size() ? 1 : 0;
    }
    files_.Keep();
  }

  EXPECT_GT(refused, 0);
  EXPECT_GT(fewer, 0);
}

}  // namespace
}  // namespace kvferry::stress
