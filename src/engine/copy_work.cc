// The one loop that copies and hashes blocks.
#include "engine/copy_work.h"

#include "base/checksum.h"
#include "base/copy_bytes.h"

namespace kvferry::engine {

void RunCopyJob(CopyJob& job) noexcept {
  for (CopyPiece& piece : std::span(job.pieces).first(job.piece_count)) {
    const std::span<const std::byte> source(piece.source, piece.size_bytes);
    switch (job.kind) {
      case CopyJob::Kind::kCopy:
        CopyBytes(source, {piece.target, piece.size_bytes});
        break;
      case CopyJob::Kind::kCopyAndSum:
        piece.checksum = CopyAndChecksum(source, {piece.target, piece.size_bytes}, piece.key);
        break;
      case CopyJob::Kind::kCopyAndVerify:
        piece.is_intact =
            CopyAndVerify(source, {piece.target, piece.size_bytes}, piece.key, piece.checksum);
        break;
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
