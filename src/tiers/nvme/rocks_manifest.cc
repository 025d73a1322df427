// The mover's side: what is in flight, and the calm after a failure.
#include "tiers/nvme/rocks_manifest.h"

#include <utility>

#include "base/assert.h"

namespace kvferry::tiers {

Result<std::unique_ptr<RocksManifest>> RocksManifest::Open(const RocksManifestOptions& options) {
  KVFERRY_ASSIGN_OR_RETURN(std::unique_ptr<ManifestCommitter> committer,
                           ManifestCommitter::Start(options));
  return std::make_unique<RocksManifest>(Token(), options.in_flight_max, std::move(committer));
}

RocksManifest::RocksManifest(Token /*token*/,
                             std::uint32_t in_flight_max,
                             std::unique_ptr<ManifestCommitter> committer)
    : in_flight_max_(in_flight_max), committer_(std::move(committer)) {
  ended_.reserve(in_flight_max);
}

RocksManifest::~RocksManifest() {
  is_closing_ = true;
  committer_->Stop();
  Reap(Instant());
  KVFERRY_CHECK(in_flight_ == 0);
}

Status RocksManifest::Submit(ManifestBatch& batch) {
  KVFERRY_CHECK(batch.sink != nullptr);
  if (is_closing_) {
    return Status::Error(StatusCode::kUnavailable, "the manifest is being closed");
  }
  // Batches from before and after a failure never mix.
  if (has_failed_ && (in_flight_ > 0 || !committer_->Resume())) {
    return Status::Error(StatusCode::kUnavailable, "the manifest is being opened again");
  }
  has_failed_ = false;
  if (in_flight_ == in_flight_max_) {
    return Status::Error(StatusCode::kResourceExhausted, "too many batches are in flight");
  }
  batch.status = Status::Ok();
  ++in_flight_;
  committer_->Push(batch);
  return Status::Ok();
}

std::size_t RocksManifest::Reap(Instant /*now*/) {
  if (in_flight_ == 0) {
    return 0;
  }
  // What a sink submits is left for the next call, so that one call ends.
  std::vector<ManifestBatch*> ended = std::exchange(ended_, {});
  committer_->TakeEnded(ended);
  for (ManifestBatch* const batch : ended) {
    --in_flight_;
    has_failed_ = has_failed_ || !batch->status.ok();
    batch->sink->OnManifestDone(*batch);
  }
  const std::size_t count = ended.size();
  ended.clear();
  ended_ = std::move(ended);
  return count;
}

Result<std::vector<SegmentRow>> RocksManifest::ReadSegments() {
  return committer_->ReadSegments();
}

Result<std::vector<MetaValue>> RocksManifest::ReadMeta(std::string_view prefix) {
  return committer_->ReadMeta(prefix);
}

Result<Manifest::ScanPiece> RocksManifest::ScanNext(std::span<PlacedRow> rows) {
  return committer_->TakeScanned(rows);
}

std::uint64_t RocksManifest::refused_row_count() const noexcept {
  return committer_->refused_row_count();
}

}  // namespace kvferry::tiers
