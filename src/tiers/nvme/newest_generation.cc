// One page of each segment.
#include "tiers/nvme/newest_generation.h"

#include <unistd.h>

#include <algorithm>

#include "tiers/nvme/segment_header.h"

namespace kvferry::tiers {

std::uint64_t NewestGeneration(const DriveSet& drives) {
  std::uint64_t newest = 0;
  DiskPageMemory page;
  for (std::uint32_t drive = 0; drive < drives.drive_count(); ++drive) {
    for (std::uint32_t segment = 0; segment < drives.layout().segment_count; ++segment) {
      const auto offset = static_cast<off_t>(drives.layout().PageOffset(segment, 0));
      const ssize_t got =
          ::pread(drives.fds()[drive], page.bytes.data(), page.bytes.size(), offset);
      if (got != static_cast<ssize_t>(page.bytes.size())) {
        continue;
      }
      const SegmentHeaderRead read =
          ReadSegmentHeader(page.bytes, {drives.store(), drive, segment});
      if (read.finding == PageFinding::kGood) {
        newest = std::max(newest, read.header.generation);
      }
    }
  }
  return newest;
}

}  // namespace kvferry::tiers
