// RocksManifest: Manifest on RocksDB, behind a committer thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "tiers/nvme/manifest.h"
#include "tiers/nvme/manifest_committer.h"

namespace kvferry::tiers {

// When a batch fails, the database is closed and opened again as after a crash, with growing pauses
// until that goes well; the failed batch has the reason, with ENOSPC or EIO as native code.
// ReadSegments and ReadMeta wait for the batches before them and see those, also later than open. A
// scan that meets a reopening goes on behind its last row and sees the rows as they are then.
//
// Thread-confined to the mover thread.
class RocksManifest final : public Manifest {
  struct Token {};  // Only Open can name it.

 public:
  // Waits for the drive. The errors are those of RocksDatabase::Open and ManifestCommitter::Start.
  static Result<std::unique_ptr<RocksManifest>> Open(const RocksManifestOptions& options);

  RocksManifest(Token token,
                std::uint32_t in_flight_max,
                std::unique_ptr<ManifestCommitter> committer);
  RocksManifest(const RocksManifest&) = delete;
  RocksManifest& operator=(const RocksManifest&) = delete;
  // Carries out what is in flight.
  ~RocksManifest() override;

  Status Submit(ManifestBatch& batch) override;
  std::size_t Reap(Instant now) override;
  std::uint32_t in_flight() const noexcept override { return in_flight_; }
  std::uint32_t in_flight_max() const noexcept override { return in_flight_max_; }
  Result<std::vector<SegmentRow>> ReadSegments() override;
  Result<std::vector<MetaValue>> ReadMeta(std::string_view prefix) override;
  Result<ScanPiece> ScanNext(std::span<PlacedRow> rows) override;
  std::uint64_t refused_row_count() const noexcept override;

 private:
  std::uint32_t in_flight_max_;
  std::uint32_t in_flight_ = 0;
  bool has_failed_ = false;  // A batch has, and no other was taken since.
  bool is_closing_ = false;
  std::unique_ptr<ManifestCommitter> committer_;
  std::vector<ManifestBatch*> ended_;  // Kept for its memory.
};

}  // namespace kvferry::tiers
