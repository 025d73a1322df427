// PatientManifest: the real manifest, on files in memory, in virtual time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "base/clock.h"
#include "base/random.h"
#include "stress/memory_files.h"
#include "stress/rocks_memory_files.h"
#include "tiers/nvme/rocks_manifest.h"

namespace kvferry::stress {

// Waits for the committer with each batch, so that a run follows from its seed as far as RocksDB's
// own threads let it, and delivers the batch a while of virtual time later. When the power goes
// with one of the files' changes, it says so at once; from then on every batch ends with ENODEV.
//
// Thread-confined.
class PatientManifest final : public tiers::Manifest, private tiers::ManifestSink {
  struct Token {};  // Only Open can name it.

 public:
  struct Options {
    std::string folder;  // Real, empty and private: RocksDB's files are not in it.
    std::uint64_t write_buffer_bytes = 0;
    std::uint32_t in_flight_max = 1;
    // Is called in Submit when the power has gone with it.
    std::function<void()> on_power_out;
  };
  // Files and clock are borrowed. The errors of RocksManifest.
  static Result<std::unique_ptr<PatientManifest>> Open(MemoryFiles& files,
                                                       const ClockSource& clock,
                                                       Random random,
                                                       const Options& options);
  PatientManifest(Token token,
                  MemoryFiles& files,
                  const ClockSource& clock,
                  Random random,
                  const Options& options);
  PatientManifest(const PatientManifest&) = delete;
  PatientManifest& operator=(const PatientManifest&) = delete;
  // As the end of the process: what is in flight ends with kCancelled, though it may be durable.
  ~PatientManifest() override;

  Status Submit(tiers::ManifestBatch& batch) override;
  std::size_t Reap(Instant now) override;
  std::uint32_t in_flight() const noexcept override;
  std::uint32_t in_flight_max() const noexcept override { return options_.in_flight_max; }
  Result<std::vector<tiers::SegmentRow>> ReadSegments() override;
  Result<std::vector<tiers::MetaValue>> ReadMeta(std::string_view prefix) override;
  Result<ScanPiece> ScanNext(std::span<tiers::PlacedRow> rows) override;
  std::uint64_t refused_row_count() const noexcept override { return inner_->refused_row_count(); }

  std::optional<Instant> NextEventTime() const;
  // The power goes now.
  void PowerCut();

 private:
  struct Ended {
    tiers::ManifestBatch* batch = nullptr;
    Instant due;
  };

  void OnManifestDone(tiers::ManifestBatch& batch) noexcept override;
  void Deliver(const Ended& ended);

  MemoryFiles& files_;
  RocksMemoryFiles rocks_files_;
  const ClockSource& clock_;
  Random random_;
  Options options_;
  bool has_power_ = true;
  bool is_closing_ = false;
  std::deque<Ended> ended_;
  std::unique_ptr<tiers::RocksManifest> inner_;
};

}  // namespace kvferry::stress
