// Writes batches into the manifest in the folder that is its argument, says which have ended well,
// and kills itself.
#include <csignal>
#include <cstdint>
#include <iostream>
#include <memory>

#include "tests/support/manifest_batches.h"
#include "tiers/nvme/rocks_manifest.h"

namespace {

constexpr std::uint32_t kBatches = 40;

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    return 2;
  }
  kvferry::testing::WaitingBell bell;
  kvferry::testing::EndedBatches sink;
  kvferry::tiers::RocksManifestOptions options;
  options.database.folder = arguments[1];
  options.bell = &bell;
  const auto manifest = kvferry::tiers::RocksManifest::Open(options);
  if (!manifest.ok()) {
    return 1;
  }
  for (std::uint32_t page = 0; page < kBatches; ++page) {
    kvferry::tiers::ManifestBatch batch;
    batch.block_puts = {kvferry::testing::RowAt(1, 1, page)};
    batch.is_synced = page % 4 == 0;
    batch.sink = &sink;
    if (!(*manifest)->Submit(batch).ok()) {
      return 1;
    }
    while ((*manifest)->in_flight() > 0) {
      bell.Wait();
      (*manifest)->Reap(kvferry::Instant());
    }
    if (!batch.status.ok()) {
      return 1;
    }
    std::cout << page << std::endl;
  }
  ::raise(SIGKILL);
  return 1;
}
