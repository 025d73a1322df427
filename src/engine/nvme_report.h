// NvmeReport: what the NVMe tier tells of its own work in the manifest, where tools find it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/histogram.h"
#include "tiers/nvme/group_commit.h"
#include "tiers/nvme/manifest.h"

namespace kvferry::engine {

// Two values in JSON: "stats/writes" has the bytes of a day (UTC), which a restart goes on with,
// beside the budget; "stats/drives" the times of reads by drive, since the tier went on. They
// travel with other rows where there are any, every 10 s while something changes.
//
// For the mover thread.
class NvmeReport {
 public:
  struct Options {
    std::uint32_t drive_count = 1;
    std::uint64_t write_bytes_per_day = 0;  // 0: no budget.
    std::int64_t unix_ms_minus_now = 0;     // Wall clock at an Instant, less its milliseconds.
  };
  static constexpr Duration kPause = std::chrono::seconds(10);

  explicit NvmeReport(const Options& options);

  // What a process before has told of this day. The manifest's error.
  Status Load(tiers::Manifest& manifest);

  void NoteRead(std::uint32_t drive, Duration time);
  void NoteWritten(Instant now, std::uint64_t bytes);
  // Of the day of the last write.
  std::uint64_t bytes_of_day() const noexcept { return bytes_of_day_; }

  // Has told what has changed by the next commit, now and then or at once.
  void Tell(Instant now, bool is_last, tiers::GroupCommit& commit);
  // When that is due.
  Instant next_deadline() const noexcept { return has_changed_ ? tell_at_ : Instant::max(); }

  std::string WritesText() const;
  std::string DrivesText() const;

 private:
  Options options_;
  std::vector<Histogram> reads_;  // By drive, in microseconds.
  std::int64_t day_ = 0;
  std::uint64_t bytes_of_day_ = 0;
  bool has_changed_ = false;
  Instant tell_at_;
};

}  // namespace kvferry::engine
