// SimManifest: Manifest in memory and virtual time, with what a power cut leaves, and faults.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/clock.h"
#include "base/random.h"
#include "sim/sim_faults.h"
#include "tiers/nvme/manifest.h"

namespace kvferry::sim {

// What a simulated manifest keeps its rows in. Outlives the manifests over it, one at a time.
//
// Thread-compatible.
class SimManifestStore {
 public:
  struct Rows {
    std::map<std::uint32_t, tiers::SegmentRow> segments;
    std::map<tiers::BlockPlace, tiers::BlockRow> blocks;
    std::map<std::string, std::string, std::less<>> meta;
  };

  const Rows& rows() const noexcept { return current_; }
  // Changes the rows; durable at the next Sync().
  void Apply(const tiers::ManifestBatch& batch);
  void Sync();
  std::size_t unsynced_batch_count() const noexcept { return unsynced_.size(); }
  // Leaves an unbroken run of the unsynced batches, from the first, of a length left to chance.
  void PowerCut(Random& random);

 private:
  Rows current_;
  Rows durable_;
  std::deque<tiers::ManifestBatch> unsynced_;
};

struct SimManifestOptions {
  std::uint64_t seed = 1;
  std::uint32_t in_flight_max = 16;
  Duration batch_time = std::chrono::microseconds(5);
  Duration sync_time = std::chrono::microseconds(130);
  Duration row_time = std::chrono::microseconds(2);
  Duration reopen_time = std::chrono::milliseconds(60);
  SimFaults faults;
};

// Batches end one after the other, each in its time. The same seed, options and calls give the same
// run. The clock is read and never moved. Thread-confined.
class SimManifest final : public tiers::Manifest {
 public:
  // The store and the clock are borrowed until the manifest is gone.
  SimManifest(SimManifestStore& store, const ClockSource& clock, const SimManifestOptions& options);
  SimManifest(const SimManifest&) = delete;
  SimManifest& operator=(const SimManifest&) = delete;
  // As the end of the process: an unbroken run of what is in flight takes effect, the rest ends
  // with kCancelled.
  ~SimManifest() override;

  Status Submit(tiers::ManifestBatch& batch) override;
  std::size_t Reap(Instant now) override;
  std::uint32_t in_flight() const noexcept override;
  std::uint32_t in_flight_max() const noexcept override { return options_.in_flight_max; }
  Result<std::vector<tiers::SegmentRow>> ReadSegments() override;
  Result<std::vector<tiers::MetaValue>> ReadMeta(std::string_view prefix) override;
  // Gives nothing now and then, and fewer rows than would fit.
  Result<ScanPiece> ScanNext(std::span<tiers::PlacedRow> rows) override;
  std::uint64_t refused_row_count() const noexcept override { return 0; }

  // When the next batch is due; nothing while none is in flight.
  std::optional<Instant> NextEventTime() const;
  void SetFaults(const SimFaults& faults) { options_.faults = faults; }
  // The batch with this number, as submitted_count() counts, meets `fault`, and no drawn one.
  void InjectAt(std::uint64_t submit_number, SimFault fault);
  // Batches that Submit took so far.
  std::uint64_t submitted_count() const noexcept { return submitted_count_; }
  const FaultCounts& fault_counts() const noexcept { return fault_counts_; }

  // The power goes: of what is in flight an unbroken run may have reached the store, which loses
  // what it may lose; from now on every batch ends with ENODEV. Once a manifest.
  void PowerCut(Random& random);

 private:
  struct Pending {
    tiers::ManifestBatch* batch = nullptr;
    Instant due;
    std::optional<SimFault> fault;
  };

  std::optional<SimFault> FaultOfNext();
  Duration TimeOf(const tiers::ManifestBatch& batch) const;
  void Finish(const Pending& pending, const Status& status);
  void Fail(const Pending& pending, Instant now);

  SimManifestStore& store_;
  const ClockSource& clock_;
  SimManifestOptions options_;
  Random random_;
  std::deque<Pending> pending_;
  std::deque<tiers::PlacedRow> scan_;  // What was there at open and was not given yet.
  std::map<std::uint64_t, SimFault> injections_;
  std::uint64_t submitted_count_ = 0;
  FaultCounts fault_counts_;
  Instant busy_until_;
  Instant closed_until_;
  bool has_power_ = true;
  bool is_closing_ = false;
};

}  // namespace kvferry::sim
