// CopyWorkers: the seam behind which block bytes are copied and hashed, off the mover thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/types.h"

#include "base/checksum.h"

namespace kvferry::engine {

// One block of a job. Memory is borrowed until the job is reaped.
struct CopyPiece {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;  // Not used by kVerify and kSum.
  std::uint32_t size_bytes = 0;
  std::uint32_t operation = 0;  // For whoever submitted it.
  BlockKey key;
  Checksum checksum;       // What the bytes must have, or (kCopyAndSum, kSum) turned out to have.
  bool is_intact = false;  // kCopyAndVerify, kVerify: they have it.
  // Becomes true when nobody wants the copy any more: a worker that sees it leaves off where it is,
  // and sets `was_stopped`. What the target holds then, and what is said of it, counts for nothing.
  // Null for what is done to its end.
  const std::atomic<bool>* stop = nullptr;
  bool was_stopped = false;
};

// A run of pieces that are done by one worker, one after another. Owned by whoever submits it, and
// left alone until it is reaped.
struct CopyJob {
  enum class Kind : std::uint8_t { kCopy, kCopyAndSum, kCopyAndVerify, kVerify, kSum };

  // Some 100 KiB each make a job that is worth a hand-over.
  static constexpr std::size_t kPiecesMax = 16;
  static constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 20;

  bool is_full() const { return piece_count == kPiecesMax || size_bytes >= kBytesMax; }

  Kind kind = Kind::kCopy;
  std::uint32_t piece_count = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t owner = 0;  // For whoever submitted it.
  std::array<CopyPiece, kPiecesMax> pieces;
};

// Does the job's work on the calling thread; what every form of CopyWorkers calls in the end.
void RunCopyJob(CopyJob& job) noexcept;

// Bounded: at most as many jobs in flight as it was made for, and whoever submits knows the bound.
//
// Submit, Flush and Reap are for the mover thread.
class CopyWorkers {
 public:
  virtual ~CopyWorkers() = default;
  // The job may wait for the next Flush before it is begun.
  virtual void Submit(CopyJob& job) = 0;
  // Nothing more is submitted for now.
  virtual void Flush() {}
  // Writes jobs that are done, in no order, and returns how many. Never waits.
  virtual std::size_t Reap(Instant now, std::span<CopyJob*> done) = 0;
  virtual std::size_t in_flight() const noexcept = 0;
};

}  // namespace kvferry::engine
