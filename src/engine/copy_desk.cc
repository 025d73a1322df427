// Open jobs by kind, handed over when full or at the end of a step.
#include "engine/copy_desk.h"

#include "base/assert.h"

namespace kvferry::engine {

CopyDesk::CopyDesk(CopyWorkers& workers, std::uint32_t checks_max)
    : workers_(workers), jobs_(JobsMax(checks_max)) {
  free_.reserve(jobs_.size());
  for (std::uint32_t job = static_cast<std::uint32_t>(jobs_.size()); job > 0; --job) {
    free_.push_back(job - 1);
  }
}

bool CopyDesk::HasRoom(CopyJob::Kind kind) const {
  return kind == CopyJob::Kind::kVerify || open_[IndexOf(kind)] != kNoJob ||
         (request_jobs_ < kRequestJobsMax && request_bytes_ < kRequestBytesMax);
}

void CopyDesk::Add(CopyJob::Kind kind, const CopyPiece& piece) {
  std::uint32_t& open = open_[IndexOf(kind)];
  if (open == kNoJob) {
    KVFERRY_CHECK(HasRoom(kind) && !free_.empty());
    open = free_.back();
    free_.pop_back();
    CopyJob& fresh = jobs_[open];
    fresh.kind = kind;
    fresh.owner = open;
    fresh.piece_count = 0;
    fresh.size_bytes = 0;
    request_jobs_ += kind == CopyJob::Kind::kVerify ? 0 : 1;
  }
  CopyJob& job = jobs_[open];
  job.pieces[job.piece_count] = piece;
  ++job.piece_count;
  job.size_bytes += piece.size_bytes;
  request_bytes_ += kind == CopyJob::Kind::kVerify ? 0 : piece.size_bytes;
  ++pieces_in_flight_;
  if (job.is_full()) {
    Send(open);
  }
}

void CopyDesk::Send(std::uint32_t& open) {
  const std::uint32_t sent = open;
  open = kNoJob;
  workers_.Submit(jobs_[sent]);
}

void CopyDesk::Flush() {
  for (std::uint32_t& open : open_) {
    if (open != kNoJob) {
      Send(open);
    }
  }
  workers_.Flush();
}

std::size_t CopyDesk::Reap(Instant now, CopySink& sink) {
  std::size_t pieces = 0;
  for (std::size_t count = workers_.Reap(now, done_); count > 0;
       count = workers_.Reap(now, done_)) {
    for (CopyJob* job : std::span(done_).first(count)) {
      for (const CopyPiece& piece : std::span(job->pieces).first(job->piece_count)) {
        --pieces_in_flight_;
        ++pieces;
        sink.OnPieceDone(job->kind, piece);
      }
      if (job->kind != CopyJob::Kind::kVerify) {
        --request_jobs_;
        request_bytes_ -= job->size_bytes;
      }
      free_.push_back(job->owner);
    }
  }
  return pieces;
}

}  // namespace kvferry::engine
