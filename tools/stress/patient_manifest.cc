// Each batch at once, its end later.
#include "stress/patient_manifest.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "tiers/nvme/io_errors.h"

namespace kvferry::stress {
namespace {

using tiers::IoError;
using tiers::ManifestBatch;

constexpr std::uint64_t kBatchUsMax = 400;
constexpr std::string_view kNoName = "~";

}  // namespace

Result<std::unique_ptr<PatientManifest>> PatientManifest::Open(MemoryFiles& files,
                                                               const ClockSource& clock,
                                                               Random random,
                                                               const Options& options) {
  auto manifest = std::make_unique<PatientManifest>(Token(), files, clock, random, options);
  tiers::RocksManifestOptions inner;
  inner.database.folder = options.folder;
  inner.database.write_buffer_bytes = options.write_buffer_bytes;
  inner.database.file_system = &manifest->rocks_files_.file_system();
  inner.in_flight_max = options.in_flight_max;
  KVFERRY_ASSIGN_OR_RETURN(manifest->inner_, tiers::RocksManifest::Open(inner));
  return manifest;
}

PatientManifest::PatientManifest(Token /*token*/,
                                 MemoryFiles& files,
                                 const ClockSource& clock,
                                 Random random,
                                 const Options& options)
    : files_(files), rocks_files_(files), clock_(clock), random_(random), options_(options) {}

PatientManifest::~PatientManifest() {
  is_closing_ = true;
  while (!ended_.empty()) {
    const Ended ended = ended_.front();
    ended_.pop_front();
    ended.batch->status = Status::Error(StatusCode::kCancelled, "the manifest is closed");
    ended.batch->sink->OnManifestDone(*ended.batch);
  }
}

Status PatientManifest::Submit(ManifestBatch& batch) {
  KVFERRY_CHECK(batch.sink != nullptr);
  if (is_closing_) {
    return Status::Error(StatusCode::kUnavailable, "the manifest is closing");
  }
  if (ended_.size() >= options_.in_flight_max) {
    return Status::Error(StatusCode::kResourceExhausted, "too many batches are in flight");
  }
  tiers::ManifestSink* const sink = batch.sink;
  const std::size_t before = ended_.size();
  if (has_power_) {
    tiers::ManifestSink& own = *this;
    batch.sink = &own;
    if (Status taken = inner_->Submit(batch); !taken.ok()) {
      batch.sink = sink;
      return taken;
    }
    // Waits for what was submitted.
    static_cast<void>(inner_->ReadMeta(kNoName).ok());
    inner_->Reap(clock_.Now());
    batch.sink = sink;
  } else {
    ended_.push_back({&batch, clock_.Now()});
  }
  KVFERRY_CHECK(ended_.size() == before + 1);
  if (has_power_ && files_.is_lost()) {
    // Nobody is told whether it was carried out before.
    PowerCut();
    if (options_.on_power_out) {
      options_.on_power_out();
    }
  }
  return Status::Ok();
}

void PatientManifest::OnManifestDone(ManifestBatch& batch) noexcept {
  const Instant due = clock_.Now() + std::chrono::microseconds(random_.Below(kBatchUsMax));
  ended_.push_back({&batch, ended_.empty() ? due : std::max(due, ended_.back().due)});
}

std::size_t PatientManifest::Reap(Instant now) {
  // What a sink submits is left for the next call.
  std::size_t left = ended_.size();
  std::size_t delivered = 0;
  while (left > 0 && !ended_.empty() && ended_.front().due <= now) {
    const Ended ended = ended_.front();
    ended_.pop_front();
    --left;
    ++delivered;
    Deliver(ended);
  }
  return delivered;
}

void PatientManifest::Deliver(const Ended& ended) {
  if (!has_power_) {
    ended.batch->status = IoError("batch of the manifest: simulated power cut", ENODEV);
  }
  ended.batch->sink->OnManifestDone(*ended.batch);
}

std::uint32_t PatientManifest::in_flight() const noexcept {
  return static_cast<std::uint32_t>(ended_.size());
}

Result<std::vector<tiers::SegmentRow>> PatientManifest::ReadSegments() {
  return inner_->ReadSegments();
}

Result<std::vector<tiers::MetaValue>> PatientManifest::ReadMeta(std::string_view prefix) {
  return inner_->ReadMeta(prefix);
}

Result<tiers::Manifest::ScanPiece> PatientManifest::ScanNext(std::span<tiers::PlacedRow> rows) {
  while (true) {
    Result<ScanPiece> piece = inner_->ScanNext(rows);
    if (!piece.ok() || piece->row_count > 0 || piece->is_last) {
      return piece;
    }
    std::this_thread::yield();  // The committer reads it just now.
  }
}

std::optional<Instant> PatientManifest::NextEventTime() const {
  if (ended_.empty()) {
    return std::nullopt;
  }
  return ended_.front().due;
}

void PatientManifest::PowerCut() {
  files_.LoseNow();
  has_power_ = false;
  for (Ended& ended : ended_) {
    ended.due = clock_.Now();
  }
}

}  // namespace kvferry::stress
