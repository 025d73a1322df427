// Two images of the rows, one durable, with the batches between them.
#include "sim/sim_manifest.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/assert.h"
#include "tiers/nvme/io_errors.h"

namespace kvferry::sim {
namespace {

using tiers::BlockPlace;
using tiers::IoError;
using tiers::ManifestBatch;
using tiers::MetaValue;
using tiers::PlacedRow;
using tiers::SegmentLife;
using tiers::SegmentRow;

constexpr std::uint64_t kLateMaxUs = 1'000'000;
constexpr double kEmptyScanOdds = 0.25;

void ApplyTo(SimManifestStore::Rows& rows, const ManifestBatch& batch) {
  for (const SegmentLife& life : batch.life_deletes) {
    rows.blocks.erase(rows.blocks.lower_bound({life, 0}),
                      rows.blocks.upper_bound({life, std::numeric_limits<std::uint32_t>::max()}));
  }
  for (const BlockPlace& place : batch.block_deletes) {
    rows.blocks.erase(place);
  }
  for (const std::string& name : batch.meta_deletes) {
    rows.meta.erase(name);
  }
  for (const SegmentRow& row : batch.segment_puts) {
    rows.segments.insert_or_assign(row.life.segment, row);
  }
  for (const PlacedRow& placed : batch.block_puts) {
    rows.blocks.insert_or_assign(placed.place(), placed.row);
  }
  for (const MetaValue& meta : batch.meta_puts) {
    rows.meta.insert_or_assign(meta.name, meta.value);
  }
}

}  // namespace

void SimManifestStore::Apply(const ManifestBatch& batch) {
  ApplyTo(current_, batch);
  unsynced_.push_back(batch);
}

void SimManifestStore::Sync() {
  for (const ManifestBatch& batch : unsynced_) {
    ApplyTo(durable_, batch);
  }
  unsynced_.clear();
}

void SimManifestStore::PowerCut(Random& random) {
  unsynced_.resize(random.Between(0, unsynced_.size()));
  Sync();
  current_ = durable_;
}

SimManifest::SimManifest(SimManifestStore& store,
                         const ClockSource& clock,
                         const SimManifestOptions& options)
    : store_(store), clock_(clock), options_(options), random_(options.seed) {
  KVFERRY_CHECK(options.in_flight_max > 0);
  for (const auto& [place, row] : store.rows().blocks) {
    scan_.push_back({place.life, row});
  }
}

SimManifest::~SimManifest() {
  is_closing_ = true;
  std::uint64_t kept_count = random_.Between(0, pending_.size());
  while (!pending_.empty()) {
    const Pending pending = pending_.front();
    pending_.pop_front();
    if (kept_count > 0 && has_power_ && pending.fault != SimFault::kBatchError) {
      --kept_count;
      Finish(pending, Status::Ok());
    } else {
      kept_count = 0;
      Finish(pending, Status::Error(StatusCode::kCancelled, "the manifest is closed"));
    }
  }
}

Status SimManifest::Submit(ManifestBatch& batch) {
  KVFERRY_CHECK(batch.sink != nullptr);
  if (is_closing_ || clock_.Now() < closed_until_) {
    return Status::Error(StatusCode::kUnavailable, "the manifest is being reopened");
  }
  if (pending_.size() >= options_.in_flight_max) {
    return Status::Error(StatusCode::kResourceExhausted, "too many batches are in flight");
  }
  const std::optional<SimFault> fault = FaultOfNext();
  busy_until_ = std::max(busy_until_, clock_.Now()) + TimeOf(batch);
  if (fault == SimFault::kBatchLate) {
    busy_until_ += std::chrono::microseconds(random_.Between(1, kLateMaxUs));
  }
  batch.status = Status::Ok();
  pending_.push_back({&batch, has_power_ ? busy_until_ : clock_.Now(), fault});
  return Status::Ok();
}

std::optional<SimFault> SimManifest::FaultOfNext() {
  const std::uint64_t number = submitted_count_++;
  std::optional<SimFault> fault;
  const auto injection = injections_.find(number);
  if (!has_power_) {
    return fault;
  }
  if (injection == injections_.end()) {
    fault = options_.faults.Draw(SimTarget::kBatch, random_);
  } else {
    fault = injection->second;
    injections_.erase(injection);
  }
  if (fault) {
    KVFERRY_CHECK(Befalls(*fault, SimTarget::kBatch));
    fault_counts_.Add(*fault);
  }
  return fault;
}

Duration SimManifest::TimeOf(const ManifestBatch& batch) const {
  const std::size_t row_count = batch.block_puts.size() + batch.segment_puts.size() +
                                batch.block_deletes.size() + batch.life_deletes.size() +
                                batch.meta_puts.size() + batch.meta_deletes.size();
  const auto rows = static_cast<Duration::rep>(row_count);
  return options_.batch_time + (options_.row_time * rows) +
         (batch.is_synced ? options_.sync_time : Duration(0));
}

std::size_t SimManifest::Reap(Instant now) {
  // What a sink submits is left for the next call, so that one call ends.
  std::size_t left = pending_.size();
  std::size_t delivered = 0;
  while (left > 0 && !pending_.empty() && pending_.front().due <= now) {
    const Pending pending = pending_.front();
    pending_.pop_front();
    --left;
    ++delivered;
    if (!has_power_) {
      Finish(pending, IoError("batch of the manifest: simulated power cut", ENODEV));
    } else if (pending.fault == SimFault::kBatchError) {
      delivered += pending_.size();
      Fail(pending, now);
      break;
    } else {
      Finish(pending, Status::Ok());
    }
  }
  return delivered;
}

void SimManifest::Finish(const Pending& pending, const Status& status) {
  if (status.ok()) {
    store_.Apply(*pending.batch);
    if (pending.batch->is_synced) {
      store_.Sync();
    }
  }
  pending.batch->status = status;
  pending.batch->sink->OnManifestDone(*pending.batch);
}

void SimManifest::Fail(const Pending& pending, Instant now) {
  // Reopened as after a crash: the failed batch and what was not synced are there from the first up
  // to some batch.
  store_.Apply(*pending.batch);
  store_.PowerCut(random_);
  closed_until_ = now + options_.reopen_time;
  busy_until_ = closed_until_;
  std::deque<Pending> behind;
  behind.swap(pending_);
  Finish(pending, IoError("batch of the manifest", random_.Chance(0.5) ? EIO : ENOSPC));
  for (const Pending& later : behind) {
    Finish(later, Status::Error(StatusCode::kUnavailable, "an earlier batch has failed"));
  }
}

std::uint32_t SimManifest::in_flight() const noexcept {
  return static_cast<std::uint32_t>(pending_.size());
}

Result<std::vector<SegmentRow>> SimManifest::ReadSegments() {
  std::vector<SegmentRow> segments;
  for (const auto& [segment, row] : store_.rows().segments) {
    segments.push_back(row);
  }
  return segments;
}

Result<std::vector<MetaValue>> SimManifest::ReadMeta(std::string_view prefix) {
  std::vector<MetaValue> values;
  const auto& meta = store_.rows().meta;
  for (auto found = meta.lower_bound(prefix);
       found != meta.end() && std::string_view(found->first).starts_with(prefix); ++found) {
    values.push_back({found->first, found->second});
  }
  return values;
}

Result<tiers::Manifest::ScanPiece> SimManifest::ScanNext(std::span<PlacedRow> rows) {
  ScanPiece piece;
  const std::size_t fitting = std::min(rows.size(), scan_.size());
  if (fitting > 0 && !random_.Chance(kEmptyScanOdds)) {
    piece.row_count = random_.Between(1, fitting);
    for (std::size_t i = 0; i < piece.row_count; ++i) {
      rows[i] = scan_.front();
      scan_.pop_front();
    }
  }
  piece.is_last = scan_.empty();
  return piece;
}

std::optional<Instant> SimManifest::NextEventTime() const {
  if (pending_.empty()) {
    return std::nullopt;
  }
  return pending_.front().due;
}

void SimManifest::InjectAt(std::uint64_t submit_number, SimFault fault) {
  injections_.insert_or_assign(submit_number, fault);
}

void SimManifest::PowerCut(Random& random) {
  KVFERRY_CHECK(has_power_);
  has_power_ = false;
  std::uint64_t reaching_count = random.Between(0, pending_.size());
  for (Pending& pending : pending_) {
    if (pending.fault == SimFault::kBatchError) {
      reaching_count = 0;
    }
    if (reaching_count > 0) {
      --reaching_count;
      store_.Apply(*pending.batch);
    }
    pending.due = clock_.Now();
  }
  store_.PowerCut(random);
}

}  // namespace kvferry::sim
