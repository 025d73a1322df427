// The table of errno values.
#include "tiers/nvme/io_errors.h"

#include <cerrno>

namespace kvferry::tiers {
namespace {

IoErrorClass ClassifyErrno(int error_number) noexcept {
  switch (error_number) {
    case ENXIO:
    case ENODEV:
    case ENOMEDIUM:
    case ENOLINK:
    case ESHUTDOWN:
    case ESTALE:
      return IoErrorClass::kBadDevice;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return IoErrorClass::kNoSpace;
    case EROFS:
      return IoErrorClass::kReadOnly;
    case EAGAIN:
    case EINTR:
    case EBUSY:
    case ECANCELED:
    case ENOMEM:
    case ENOBUFS:
    case ETIMEDOUT:
      return IoErrorClass::kTransient;
    case EINVAL:
    case EBADF:
    case EFAULT:
    case EOPNOTSUPP:
    case ESPIPE:
    case EISDIR:
    case EPERM:
    case EACCES:
      return IoErrorClass::kMisuse;
    default:  // EIO, EILSEQ (its checksum), ENODATA (its medium), EREMOTEIO and whatever comes.
      return IoErrorClass::kBadBlock;
  }
}

}  // namespace

IoErrorClass ClassifyIoError(const Status& status) noexcept {
  switch (status.code()) {
    case StatusCode::kOk:
      return IoErrorClass::kNone;
    case StatusCode::kInvalidArgument:
      return IoErrorClass::kMisuse;
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
      return IoErrorClass::kTransient;
    case StatusCode::kDataLoss:
      return IoErrorClass::kTruncated;
    case StatusCode::kIoError:
    case StatusCode::kDeviceError:
    case StatusCode::kInternal:
      break;
  }
  return ClassifyErrno(status.native_code());
}

std::string_view ToString(IoErrorClass error_class) noexcept {
  switch (error_class) {
    case IoErrorClass::kNone:
      return "none";
    case IoErrorClass::kBadBlock:
      return "bad block";
    case IoErrorClass::kBadDevice:
      return "bad device";
    case IoErrorClass::kNoSpace:
      return "no space";
    case IoErrorClass::kReadOnly:
      return "read-only";
    case IoErrorClass::kTransient:
      return "transient";
    case IoErrorClass::kTruncated:
      return "truncated";
    case IoErrorClass::kMisuse:
      return "misuse";
  }
  return "unknown";
}

Status IoError(const std::string& what, int error_number, SourceLine where) {
  return Status::Error(StatusCode::kIoError, what, error_number, where);
}

Status TruncatedError(const std::string& what, SourceLine where) {
  return Status::Error(StatusCode::kDataLoss, what + ": the file ends before", 0, where);
}

}  // namespace kvferry::tiers
