// ReuseCounter: how long blocks wait for their next reference, and how often each is referenced.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "replay/last_references.h"
#include "replay/trace.h"
#include "replay/value_counts.h"

namespace kvferry::replay {

// Nearest-rank percentiles over all re-references of blocks.
struct IntervalPercentiles {
  std::uint64_t p10 = 0;
  std::uint64_t p25 = 0;
  std::uint64_t p50 = 0;
  std::uint64_t p75 = 0;
  std::uint64_t p90 = 0;
  std::uint64_t p99 = 0;
  std::uint64_t max = 0;
};

struct ReuseIntervals {
  IntervalPercentiles ms;        // Since the block's last reference; times that go back count as 0.
  IntervalPercentiles requests;  // Difference of the two requests' positions.
};

// How often blocks are referenced in the whole trace.
struct BlockPopularity {
  std::uint64_t referenced_once = 0;  // Blocks.
  std::uint64_t referenced_twice = 0;
  std::uint64_t referenced_3_to_9 = 0;
  std::uint64_t referenced_10_to_99 = 0;
  std::uint64_t referenced_100_or_more = 0;
  // The most referenced blocks, floor(distinct / 100) and at least one: their share of all
  // references but each block's first. 0 where no block is referenced again.
  double top_1_percent_share = 0;
};

// Collects the runs of LastReferences.
//
// Thread-compatible. Borrows the trace until destroyed.
class ReuseCounter {
 public:
  explicit ReuseCounter(const Trace& trace) : trace_(trace) {}

  void Add(std::uint32_t request, const ReferenceRun& run);
  // Nothing where no block came twice.
  std::optional<ReuseIntervals> Intervals();

 private:
  const Trace& trace_;
  ValueCounts ms_;
  ValueCounts requests_;
};

BlockPopularity ComputeBlockPopularity(const Trace& trace);

// `later` minus `earlier`, 0 where time went back, without wrapping for any two times.
std::uint64_t ElapsedMs(std::int64_t earlier, std::int64_t later);

}  // namespace kvferry::replay
