// The one loop that copies and hashes blocks.
#include "engine/copy_work.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/copy_bytes.h"

namespace kvferry::engine {

namespace {

// Between two looks at whether anybody wants the copy: a look costs nothing beside it, and it takes
// far less than callers may be kept waiting, also where each page of the target has to be made
// first.
constexpr std::size_t kStretchBytes = std::size_t{1} << 20;

bool IsToStop(const CopyPiece& piece) noexcept {
  return piece.stop != nullptr && piece.stop->load(std::memory_order_relaxed);
}

// Copies the piece, and gives the checksum where `sums`; whether it came to the end.
bool Copy(CopyPiece& piece, bool sums) noexcept {
  const std::span<const std::byte> source(piece.source, piece.size_bytes);
  const std::span<std::byte> target(piece.target, piece.size_bytes);
  if (!IsToStop(piece) && source.size() <= kStretchBytes) {
    if (sums) {
      piece.checksum = CopyAndChecksum(source, target, piece.key);
    } else {
      CopyBytes(source, target);
    }
    return true;
  }
  ChecksumStream stream(piece.key);
  for (std::size_t at = 0; at < source.size(); at += kStretchBytes) {
    if (IsToStop(piece)) {
      return false;
    }
    const std::size_t size = std::min(kStretchBytes, source.size() - at);
    if (sums) {
      CopyInto(stream, source.subspan(at, size), target.subspan(at));
    } else {
      CopyBytes(source.subspan(at, size), target.subspan(at));
    }
  }
  if (sums) {
    piece.checksum = stream.Finish();
  }
  return true;
}

}  // namespace

void RunCopyJob(CopyJob& job) noexcept {
  for (CopyPiece& piece : std::span(job.pieces).first(job.piece_count)) {
    const std::span<const std::byte> source(piece.source, piece.size_bytes);
    switch (job.kind) {
      case CopyJob::Kind::kCopy:
        piece.was_stopped = !Copy(piece, false);
        break;
      case CopyJob::Kind::kCopyAndSum:
        piece.was_stopped = !Copy(piece, true);
        break;
      case CopyJob::Kind::kCopyAndVerify: {
        const Checksum expected = piece.checksum;
        piece.was_stopped = !Copy(piece, true);
        piece.is_intact = piece.checksum == expected;
        break;
      }
      case CopyJob::Kind::kVerify:
        piece.is_intact = ChecksumOf(source, piece.key) == piece.checksum;
        break;
      case CopyJob::Kind::kSum:
        piece.checksum = ChecksumOf(source, piece.key);
        break;
    }
  }
}

}  // namespace kvferry::engine
