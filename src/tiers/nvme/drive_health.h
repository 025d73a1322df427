// DriveHealth: tells a bad place on a drive from a drive that is gone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kvferry/status.h"

#include "tiers/nvme/io_errors.h"

namespace kvferry::tiers {

// A drive is gone when it says so, or when operations at so many places have failed and none has
// worked meanwhile: one place that is asked for again and again says nothing of the others. A
// failure counts against its segment only if something else on the drive has worked since the last
// one that did: so a drive that is out for a while does not cost segments.
//
// Thread-confined to the mover thread.
class DriveHealth {
 public:
  static constexpr std::uint32_t kPlacesInRowMax = 16;

  explicit DriveHealth(std::uint32_t drive_count) : drives_(drive_count) {}

  void NoteSuccess(std::uint32_t drive) noexcept {
    drives_[drive].place_count = 0;
    drives_[drive].has_worked = true;
  }
  // Whether the failure, of an operation at `offset_bytes`, counts against its segment.
  bool NoteFailure(std::uint32_t drive, std::uint64_t offset_bytes, const Status& status) {
    const IoErrorClass error_class = ClassifyIoError(status);
    if (error_class == IoErrorClass::kTransient || error_class == IoErrorClass::kNoSpace ||
        error_class == IoErrorClass::kReadOnly || error_class == IoErrorClass::kMisuse) {
      return false;
    }
    Drive& failing = drives_[drive];
    failing.AddPlace(offset_bytes);
    if (error_class == IoErrorClass::kBadDevice || failing.place_count == kPlacesInRowMax) {
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
    void AddPlace(std::uint64_t offset_bytes) {
      const auto end = places.begin() + place_count;
      if (std::find(places.begin(), end, offset_bytes) == end && place_count < kPlacesInRowMax) {
        places.at(place_count++) = offset_bytes;
      }
    }

    std::array<std::uint64_t, kPlacesInRowMax> places{};  // That failed since the last success.
    std::uint32_t place_count = 0;
    bool has_worked = true;
  };
  std::vector<Drive> drives_;
  Status failure_;
};

}  // namespace kvferry::tiers
