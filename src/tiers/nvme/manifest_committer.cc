// The committer's loop, and the mover's side of its queues.
#include "tiers/nvme/manifest_committer.h"

#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "tiers/nvme/kill_points.h"

namespace kvferry::tiers {
namespace {

constexpr std::size_t kPieceRows = 4096;
constexpr std::size_t kPiecesAhead = 2;

}  // namespace

Result<std::unique_ptr<ManifestCommitter>> ManifestCommitter::Start(
    const RocksManifestOptions& options) {
  KVFERRY_CHECK(options.in_flight_max > 0);
  KVFERRY_ASSIGN_OR_RETURN(std::unique_ptr<RocksDatabase> database,
                           RocksDatabase::Open(options.database));
  KVFERRY_RETURN_IF_ERROR(database->StartScan(nullptr));
  auto committer = std::make_unique<ManifestCommitter>(Token(), options, std::move(database));
  try {
    committer->thread_ = std::thread([raw = committer.get()] { raw->Work(); });
  } catch (const std::system_error& error) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "no thread for the manifest can be started", error.code().value());
  }
  return committer;
}

ManifestCommitter::ManifestCommitter(Token /*token*/,
                                     const RocksManifestOptions& options,
                                     std::unique_ptr<RocksDatabase> database)
    : options_(options), database_(std::move(database)) {}

ManifestCommitter::~ManifestCommitter() {
  Stop();
}

void ManifestCommitter::Stop() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    work_came_.NotifyOne();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ManifestCommitter::Push(ManifestBatch& batch) {
  const MutexLock lock(mutex_);
  waiting_.push_back(&batch);
  work_came_.NotifyOne();
}

void ManifestCommitter::TakeEnded(std::vector<ManifestBatch*>& ended) {
  const MutexLock lock(mutex_);
  ended.insert(ended.end(), ended_.begin(), ended_.end());
  ended_.clear();
}

bool ManifestCommitter::Resume() {
  const MutexLock lock(mutex_);
  KVFERRY_CHECK(waiting_.empty() && ended_.empty());
  if (is_open_) {
    has_failed_ = false;
  }
  return is_open_;
}

Result<std::vector<SegmentRow>> ManifestCommitter::ReadSegments() {
  Read read;
  KVFERRY_RETURN_IF_ERROR(WaitFor(read));
  return std::move(read.segments);
}

Result<std::vector<MetaValue>> ManifestCommitter::ReadMeta(std::string_view prefix) {
  Read read;
  read.meta_prefix = prefix;
  KVFERRY_RETURN_IF_ERROR(WaitFor(read));
  return std::move(read.values);
}

Status ManifestCommitter::WaitFor(Read& read) {
  const MutexLock lock(mutex_);
  read_ = &read;
  work_came_.NotifyOne();
  while (read_ != nullptr) {
    read_ended_.Wait(mutex_);
  }
  return read.status;
}

Result<Manifest::ScanPiece> ManifestCommitter::TakeScanned(std::span<PlacedRow> rows) {
  const MutexLock lock(mutex_);
  Manifest::ScanPiece piece;
  while (piece.row_count < rows.size() && !pieces_.empty()) {
    const std::vector<PlacedRow>& first = pieces_.front();
    const std::size_t count =
        std::min(first.size() - first_piece_taken_, rows.size() - piece.row_count);
    const auto from = std::span(first).subspan(first_piece_taken_, count);
    std::copy(from.begin(), from.end(), rows.subspan(piece.row_count).begin());
    piece.row_count += count;
    first_piece_taken_ += count;
    if (first_piece_taken_ == first.size()) {
      pieces_.pop_front();
      first_piece_taken_ = 0;
      work_came_.NotifyOne();
    }
  }
  if (piece.row_count == 0 && !scan_status_.ok()) {
    return scan_status_;
  }
  piece.is_last = is_scanned_ && scan_status_.ok() && pieces_.empty();
  return piece;
}

std::uint64_t ManifestCommitter::refused_row_count() {
  const MutexLock lock(mutex_);
  return refused_row_count_;
}

void ManifestCommitter::RingBell() {
  if (options_.bell != nullptr) {
    options_.bell->Ring();
  }
}

void ManifestCommitter::Work() {
  for (Task task = NextTask(); task != Task::kStop; task = NextTask()) {
    switch (task) {
      case Task::kCommit:
        Commit();
        break;
      case Task::kReopen:
        Reopen();
        break;
      case Task::kScan:
        Scan();
        break;
      case Task::kRead:
        CarryRead();
        break;
      case Task::kStop:
        break;
    }
  }
}

ManifestCommitter::Task ManifestCommitter::NextTask() {
  const MutexLock lock(mutex_);
  while (true) {
    if (!waiting_.empty()) {
      return Task::kCommit;
    }
    if (read_ != nullptr) {
      return Task::kRead;
    }
    if (is_stopping_) {
      return Task::kStop;
    }
    if (!is_open_ && Clock::now() >= reopen_at_) {
      return Task::kReopen;
    }
    if (is_open_ && !is_scanned_ && pieces_.size() < kPiecesAhead) {
      return Task::kScan;
    }
    if (is_open_) {
      work_came_.Wait(mutex_);
    } else {
      work_came_.WaitUntil(mutex_, reopen_at_);
    }
  }
}

void ManifestCommitter::Commit() {
  ManifestBatch* batch = nullptr;
  bool has_failed = false;
  {
    const MutexLock lock(mutex_);
    batch = waiting_.front();
    waiting_.pop_front();
    has_failed = has_failed_;
  }
  Pass(KillPoint::kBatchWriting);
  batch->status = has_failed
                      ? Status::Error(StatusCode::kUnavailable, "an earlier batch has failed")
                      : database_->Write(*batch);
  Pass(KillPoint::kBatchWritten);
  if (batch->status.ok() && batch->is_synced) {
    pause_ = Duration(0);
  }
  const bool fails_now = !has_failed && !batch->status.ok();
  if (fails_now) {
    LogWarning("the manifest is opened again: " + batch->status.ToString());
  }
  {
    const MutexLock lock(mutex_);
    if (fails_now) {
      has_failed_ = true;
      is_open_ = false;
      reopen_at_ = Clock::now() + pause_;
    }
    ended_.push_back(batch);
  }
  if (fails_now) {
    pause_ = std::clamp(pause_ * 2, options_.reopen_pause_min, options_.reopen_pause_max);
  }
  RingBell();
}

void ManifestCommitter::CarryRead() {
  Read* asked = nullptr;
  bool is_open = false;
  {
    const MutexLock lock(mutex_);
    asked = read_;
    is_open = is_open_;
  }
  Read& read = *asked;
  if (!is_open) {
    read.status = Status::Error(StatusCode::kUnavailable, "the manifest is being opened again");
  } else if (read.meta_prefix) {
    Result<std::vector<MetaValue>> values = database_->ReadMeta(*read.meta_prefix);
    read.status = values.status();
    if (values.ok()) {
      read.values = *std::move(values);
    }
  } else {
    Result<std::vector<SegmentRow>> segments = database_->ReadSegments();
    read.status = segments.status();
    if (segments.ok()) {
      read.segments = *std::move(segments);
    }
  }
  const MutexLock lock(mutex_);
  read_ = nullptr;
  read_ended_.NotifyOne();
}

void ManifestCommitter::Reopen() {
  database_.reset();
  RocksDatabaseOptions again = options_.database;
  again.must_exist = true;
  Result<std::unique_ptr<RocksDatabase>> opened = RocksDatabase::Open(again);
  Status status = opened.status();
  if (status.ok()) {
    database_ = *std::move(opened);
    status = database_->StartScan(last_scanned_ ? &*last_scanned_ : nullptr);
  }
  {
    const MutexLock lock(mutex_);
    is_open_ = status.ok();
    reopen_at_ = Clock::now() + pause_;
  }
  if (status.ok()) {
    LogInfo("the manifest is open again");
    RingBell();
    return;
  }
  LogDebug("the manifest cannot be opened: " + status.ToString());
  pause_ = std::clamp(pause_ * 2, options_.reopen_pause_min, options_.reopen_pause_max);
}

void ManifestCommitter::Scan() {
  Result<RocksDatabase::ScanPiece> piece = database_->ScanNext(kPieceRows);
  if (piece.ok() && !piece->rows.empty()) {
    last_scanned_ = piece->rows.back().place();
  }
  {
    const MutexLock lock(mutex_);
    is_scanned_ = !piece.ok() || piece->is_last;
    scan_status_ = piece.status();
    if (piece.ok()) {
      refused_row_count_ += piece->refused_count;
    }
    if (piece.ok() && !piece->rows.empty()) {
      pieces_.push_back(std::move(piece->rows));
    }
  }
  RingBell();
}

}  // namespace kvferry::tiers
