// Makers for tests of manifests: rows, a sink that remembers, and a whole scan.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/types.h"

#include "base/mutex.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"
#include "tiers/nvme/manifest.h"
#include "tiers/nvme/manifest_committer.h"

namespace kvferry::testing {

// Remembers the batches in the order of their ends.
class EndedBatches final : public tiers::ManifestSink {
 public:
  void OnManifestDone(tiers::ManifestBatch& batch) noexcept override { ended.push_back(&batch); }
  std::vector<tiers::ManifestBatch*> ended;
};

// Lets a test sleep until the committer has something to tell.
class WaitingBell final : public tiers::ManifestBell {
 public:
  void Ring() noexcept override {
    const MutexLock lock(mutex_);
    is_rung_ = true;
    condition_.NotifyOne();
  }
  void Wait() {
    const MutexLock lock(mutex_);
    while (!is_rung_) {
      condition_.Wait(mutex_);
    }
    is_rung_ = false;
  }

 private:
  Mutex mutex_;
  ConditionVariable condition_;
  bool is_rung_ KVFERRY_GUARDED_BY(mutex_) = false;
};

// A row whose every field follows from its place, so that one that was not written shows.
inline tiers::PlacedRow RowAt(std::uint32_t segment, std::uint64_t generation, std::uint32_t page) {
  tiers::PlacedRow placed;
  placed.life = {segment, generation};
  placed.row.key = KeyOf((generation << 40) + (std::uint64_t{segment} << 32) + page);
  placed.row.page = page;
  placed.row.stored_bytes = page + 1;
  placed.row.raw_bytes = page + 2;
  return placed;
}

// Up to an error of the scan, which is returned; while nothing has come, `wait` is called.
template <class Wait>
Status ScanAll(tiers::Manifest& manifest, std::vector<tiers::PlacedRow>& found, Wait wait) {
  std::array<tiers::PlacedRow, 100> rows;
  for (bool is_last = false; !is_last;) {
    KVFERRY_ASSIGN_OR_RETURN(const tiers::Manifest::ScanPiece piece, manifest.ScanNext(rows));
    is_last = piece.is_last;
    if (piece.row_count == 0 && !is_last) {
      wait();
    }
    found.insert(found.end(), rows.begin(),
                 rows.begin() + static_cast<std::ptrdiff_t>(piece.row_count));
  }
  return Status::Ok();
}

}  // namespace kvferry::testing
