// Manifest: the seam of the durable store of metadata, a journal and a restart image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "tiers/nvme/manifest_rows.h"

namespace kvferry::tiers {

struct ManifestBatch;

// Is told the end of batches. Must live until the last of its batches has ended.
class ManifestSink {
 public:
  virtual ~ManifestSink() = default;

  // Runs inside Manifest::Reap() or the manifest's destructor, exactly once per batch that Submit
  // took, with `batch.status` set; from then on the batch is the caller's again. May submit further
  // batches, this one included.
  virtual void OnManifestDone(ManifestBatch& batch) noexcept = 0;
};

// A small value under a name of the caller's: configuration, sessions, the clean marker.
struct MetaValue {
  std::string name;
  std::string value;
  bool operator==(const MetaValue&) const = default;
};

// Changes that happen together or not at all, the deletions before the puts. The caller owns it and
// leaves it alone, and where it is, from Submit until OnManifestDone.
struct ManifestBatch {
  std::vector<SegmentLife> life_deletes;  // All block rows of these lives.
  std::vector<BlockPlace> block_deletes;
  std::vector<std::string> meta_deletes;
  std::vector<SegmentRow> segment_puts;
  std::vector<PlacedRow> block_puts;
  std::vector<MetaValue> meta_puts;

  // Whether it must survive a power cut, with all batches submitted before it, once it has ended
  // well. The others survive the process; of them a power cut leaves an unbroken run from the
  // first.
  bool is_synced = false;
  ManifestSink* sink = nullptr;  // Borrowed; not null.

  // After an error a restart may find the batch, whole or not at all.
  Status status;

  // Empty again, the capacity kept.
  void Clear();
};

// Rows by place and values by name, changed in batches that take effect in the order of Submit.
//
// After a batch has failed, those behind it fail too, and Submit gives kUnavailable until the
// manifest has reopened its store by itself. That is like a restart after a crash: what was synced
// is there, what was not synced may be gone from some batch on.
//
// Thread-confined to the mover thread.
class Manifest {
 public:
  Manifest() = default;
  Manifest(const Manifest&) = delete;
  Manifest& operator=(const Manifest&) = delete;
  // Ends and delivers what is in flight.
  virtual ~Manifest() = default;

  // Takes the batch, or leaves it to the caller with no call of its sink to come:
  // kResourceExhausted: in_flight_max() batches are in flight. kUnavailable: out of order for now.
  virtual Status Submit(ManifestBatch& batch) = 0;
  // Delivers what has ended; how many. Never waits.
  virtual std::size_t Reap(Instant now) = 0;
  virtual std::uint32_t in_flight() const noexcept = 0;
  virtual std::uint32_t in_flight_max() const noexcept = 0;

  // The restart scan. Segments and values may be read as often as wanted, which may wait for the
  // drive; block rows come once, in order of place, in pieces, as they were at open.
  virtual Result<std::vector<SegmentRow>> ReadSegments() = 0;
  // The values whose name starts with `prefix`, in order of name.
  virtual Result<std::vector<MetaValue>> ReadMeta(std::string_view prefix) = 0;

  struct ScanPiece {
    std::size_t row_count = 0;  // How many of `rows` were filled; 0 while the next are being read.
    bool is_last = false;       // Nothing comes after these.
  };
  // Never waits. Batches may be in flight beside it, whose changes it does not see; so a row may be
  // older than what its reader knows by now. A row that cannot be read is left out and counted.
  virtual Result<ScanPiece> ScanNext(std::span<PlacedRow> rows) = 0;
  virtual std::uint64_t refused_row_count() const noexcept = 0;
};

}  // namespace kvferry::tiers
