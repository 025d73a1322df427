// DriveHealth: tells a bad place on a drive from a drive that is gone.
#pragma once

#include <cstdint>
#include <vector>

#include "kvferry/status.h"

#include "tiers/nvme/io_errors.h"

namespace kvferry::tiers {

// A drive is gone when it says so, or when so many operations in a row have failed. A failure
// counts against its segment only if something else on the drive has worked since the last one that
// did: so a drive that is out for a while does not cost segments.
//
// Thread-confined to the mover thread.
class DriveHealth {
 public:
  static constexpr std::uint32_t kFailuresInRowMax = 16;

  explicit DriveHealth(std::uint32_t drive_count) : drives_(drive_count) {}

  void NoteSuccess(std::uint32_t drive) noexcept {
    drives_[drive].in_row = 0;
    drives_[drive].has_worked = true;
  }
  // Whether the failure counts against its segment.
  bool NoteFailure(std::uint32_t drive, const Status& status) {
    const IoErrorClass error_class = ClassifyIoError(status);
    if (error_class == IoErrorClass::kTransient || error_class == IoErrorClass::kNoSpace ||
        error_class == IoErrorClass::kReadOnly || error_class == IoErrorClass::kMisuse) {
      return false;
    }
    Drive& failing = drives_[drive];
    if (error_class == IoErrorClass::kBadDevice || ++failing.in_row >= kFailuresInRowMax) {
      failure_ = failure_.ok() ? status : failure_;
      return false;
    }
    const bool counts = failing.has_worked;
    failing.has_worked = false;
    return counts;
  }
  // Ok, or what the drive said that is gone.
  const Status& failure() const noexcept { return failure_; }

 private:
  struct Drive {
    std::uint32_t in_row = 0;
    bool has_worked = true;
  };
  std::vector<Drive> drives_;
  Status failure_;
};

}  // namespace kvferry::tiers
