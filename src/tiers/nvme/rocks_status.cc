// The table of codes.
#include "tiers/nvme/rocks_status.h"

#include <cerrno>

#include <rocksdb/status.h>

#include "tiers/nvme/io_errors.h"

namespace kvferry::tiers {

Status FromRocks(const rocksdb::Status& status, const std::string& what, SourceLine where) {
  const std::string text = what + ": " + status.ToString();
  switch (status.code()) {
    case rocksdb::Status::kOk:
      return Status::Ok();
    case rocksdb::Status::kIOError:
      if (status.IsPathNotFound()) {
        return Status::Error(StatusCode::kDataLoss, text, ENOENT, where);
      }
      return IoError(text, status.IsNoSpace() ? ENOSPC : EIO, where);
    case rocksdb::Status::kIncomplete:
    case rocksdb::Status::kShutdownInProgress:
    case rocksdb::Status::kTimedOut:
    case rocksdb::Status::kAborted:
    case rocksdb::Status::kBusy:
    case rocksdb::Status::kTryAgain:
      return Status::Error(StatusCode::kUnavailable, text, 0, where);
    default:
      return Status::Error(StatusCode::kDataLoss, text, 0, where);
  }
}

}  // namespace kvferry::tiers
