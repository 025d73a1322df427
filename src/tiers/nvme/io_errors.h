// ClassifyIoError: the one place that decides what an error of a drive or a ring means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvferry/status.h"

namespace kvferry::tiers {

// What the tier does about it is the tier's business; this says only what has happened.
enum class IoErrorClass : std::uint8_t {
  kNone,       // Ok.
  kBadBlock,   // This place cannot be read or written; others may well.
  kBadDevice,  // The drive or its file system is gone.
  kNoSpace,    // No room, or a quota. Reads work.
  kReadOnly,   // The file system takes no writes. Reads work.
  kTransient,  // Not carried out; the same may work later.
  kTruncated,  // The file ends before the end of the read.
  kMisuse,  // The request itself was wrong: a bug on our side, or a file system without O_DIRECT.
};

// Of a status that an IoRing gave, by Submit or by an operation. An error that it does not know is
// kBadBlock: the bytes are not to be trusted, and repeated ones take the drive out.
IoErrorClass ClassifyIoError(const Status& status) noexcept;

// "bad block" and so on; never null.
std::string_view ToString(IoErrorClass error_class) noexcept;

// What a failed operation gets: kIoError with the errno as its native code.
Status IoError(const std::string& what, int error_number, SourceLine where = SourceLine::Here());
// What a read gets whose end lies past the end of the file: kDataLoss without native code.
Status TruncatedError(const std::string& what, SourceLine where = SourceLine::Here());

}  // namespace kvferry::tiers
