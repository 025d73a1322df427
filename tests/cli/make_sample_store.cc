// Makes a small store in the folders that are named, for tests of the command line, and prints
// where its blocks lie, a line each: file, offset, length, segment, page. With --hold before the
// folders it opens the store that is there as an engine does, until its input ends.
#include <cstdio>
#include <string>
#include <vector>

#include "tests/tiers/nvme/store_samples.h"

namespace {

using kvferry::tiers::DriveSet;
using kvferry::tiers::DriveSetOptions;
using kvferry::tiers::PlacedRow;
using kvferry::tiers::RocksDatabase;

int Hold(const std::vector<std::string>& paths) {
  DriveSetOptions options;
  options.paths = paths;
  const kvferry::Result<std::unique_ptr<DriveSet>> drives = DriveSet::Open(options);
  const kvferry::Result<std::unique_ptr<RocksDatabase>> database =
      RocksDatabase::Open({.folder = paths.front() + "/manifest", .file_system = nullptr});
  if (!drives.ok() || !database.ok()) {
    return 1;
  }
  std::puts("held");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

int Make(const std::vector<std::string>& paths) {
  const kvferry::tiers::testing::SampleStore sample(paths);
  for (const PlacedRow& placed : sample.blocks) {
    const std::uint32_t segment = placed.life.segment;
    std::printf("%s %llu %u %u %u\n", sample.FileOf(segment).c_str(),
                static_cast<unsigned long long>(sample.OffsetOf(segment, placed.row.page)),
                placed.row.stored_bytes, segment, placed.row.page);
  }
  return ::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  if (!paths.empty() && paths.front() == "--hold") {
    paths.erase(paths.begin());
    return Hold(paths);
  }
  return Make(paths);
}
