// ArrivalStats: when requests come, from the times of a trace alone.
#pragma once

#include <cstdint>
#include <optional>

#include "replay/trace.h"

namespace kvferry::replay {

struct MinutePercentiles {
  std::uint64_t p1 = 0;
  std::uint64_t p50 = 0;
  std::uint64_t p99 = 0;
  std::uint64_t max = 0;
};

struct ArrivalStats {
  // Requests divided by the time from the first to the last; nothing where that is zero.
  std::optional<double> per_second;
  // Requests in each minute from the first request on, empty and last partial ones included.
  MinutePercentiles per_minute;
  // Population deviation of the gaps between neighbours in the file, divided by their mean; times
  // that go back are gaps of 0. Nothing where all gaps are 0 or there is none.
  std::optional<double> gap_variation;
  std::uint64_t distinct_timestamps = 0;
};

// All zero for a trace without requests.
ArrivalStats ComputeArrivalStats(const Trace& trace);

// From the earliest to the latest time.
std::uint64_t SpanMs(const Trace& trace);

}  // namespace kvferry::replay
