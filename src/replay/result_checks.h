// CheckResults: what must hold within and between the cells of a replay, whatever the trace.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kvferry/status.h"

#include "replay/cache_cell.h"
#include "replay/trace.h"
#include "replay/trace_stats.h"

namespace kvferry::replay {

// How all the cells were run.
struct CheckOptions {
  HitRule hit_rule = HitRule::kPrefix;
  std::size_t warmup_requests = 0;
  bool stores_outputs = false;
};

// kInternal, naming the cells and the numbers, for the first of these that does not hold:
//   - every cell looked up what the trace references; hits + misses = lookups; parts are not larger
//     than their wholes; no more residents than the capacity;
//   - misses = rejected + evictions + residents at the end + misses that were resident behind an
//     absent block and stayed (not after a warm-up, where evictions before it are not counted, and
//     not with stored outputs, which come without being missed);
//   - none hits more than the unbounded cache, and one that loses nothing hits as much;
//   - none hits more blocks than `min` at the same capacity: for chained ids under the prefix rule,
//     and under the block rule for policies that rejected nothing, since `min` does not bypass
//     there (not after a warm-up or with stored outputs: the bound is one of the whole run);
//   - leaf-lru, lru-head-first and, where it is a bound, min hit no less at a larger capacity;
//   - leaf-lru equals lru-head-first where a path has one block or references stand alone;
//   - a cell that is run twice counts the same.
Status CheckResults(const Trace& trace,
                    const TraceStats& stats,
                    std::span<const CellResult> results,
                    const CheckOptions& options);

// The same as a sentence for a report: what holds of these results under these options, and nothing
// that they have no cells for.
std::string DescribeChecks(const Trace& trace,
                           std::span<const CellResult> results,
                           const CheckOptions& options);

}  // namespace kvferry::replay
