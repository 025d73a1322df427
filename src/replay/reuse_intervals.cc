// Reuse intervals by distinct value, and references by block without walking every path.
#include "replay/reuse_intervals.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace kvferry::replay {
namespace {

IntervalPercentiles ToPercentiles(ValueCounts& counts) {
  return {.p10 = counts.Percentile(10),
          .p25 = counts.Percentile(25),
          .p50 = counts.Percentile(50),
          .p75 = counts.Percentile(75),
          .p90 = counts.Percentile(90),
          .p99 = counts.Percentile(99),
          .max = counts.Max()};
}

std::vector<std::uint64_t> CountReferences(const Trace& trace) {
  std::vector<std::uint64_t> references(trace.distinct_blocks());
  if (trace.is_chained()) {
    // Every path through a block goes through its parent, and parents are numbered lower.
    for (const TraceRequest& request : trace.requests()) {
      if (request.block_count > 0) {
        ++references[request.location];
      }
    }
    for (std::size_t entry = references.size(); entry-- > 0;) {
      const EntryIndex parent = trace.parent(EntryIndex{static_cast<std::uint32_t>(entry)});
      if (parent != kNoEntry) {
        references[static_cast<std::uint32_t>(parent)] += references[entry];
      }
    }
    return references;
  }
  std::vector<EntryIndex> path;
  for (const TraceRequest& request : trace.requests()) {
    path.resize(request.block_count);
    trace.ReadPath(request, path);
    for (const EntryIndex entry : path) {
      ++references[static_cast<std::uint32_t>(entry)];
    }
  }
  return references;
}

}  // namespace

std::uint64_t ElapsedMs(std::int64_t earlier, std::int64_t later) {
  return later <= earlier ? 0
                          : static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
}

void ReuseCounter::Add(std::uint32_t request, const ReferenceRun& run) {
  const auto requests = trace_.requests();
  ms_.Add(ElapsedMs(requests[run.previous].time_ms, requests[request].time_ms), run.count);
  requests_.Add(request - run.previous, run.count);
}

std::optional<ReuseIntervals> ReuseCounter::Intervals() {
  if (ms_.is_empty()) {
    return std::nullopt;
  }
  return ReuseIntervals{.ms = ToPercentiles(ms_), .requests = ToPercentiles(requests_)};
}

BlockPopularity ComputeBlockPopularity(const Trace& trace) {
  BlockPopularity popularity;
  if (trace.distinct_blocks() == 0) {
    return popularity;
  }
  std::vector<std::uint64_t> references = CountReferences(trace);
  for (const std::uint64_t count : references) {
    if (count == 1) {
      ++popularity.referenced_once;
    } else if (count == 2) {
      ++popularity.referenced_twice;
    } else if (count < 10) {
      ++popularity.referenced_3_to_9;
    } else if (count < 100) {
      ++popularity.referenced_10_to_99;
    } else {
      ++popularity.referenced_100_or_more;
    }
  }
  const std::uint64_t again_total = trace.block_refs() - trace.distinct_blocks();
  if (again_total == 0) {
    return popularity;
  }
  const std::size_t top_count = std::max<std::size_t>(1, references.size() / 100);
  std::nth_element(references.begin(),
                   references.begin() + static_cast<std::ptrdiff_t>(top_count - 1),
                   references.end(), std::greater<>());
  std::uint64_t again_top = 0;
  for (std::size_t i = 0; i < top_count; ++i) {
    again_top += references[i] - 1;
  }
  popularity.top_1_percent_share =
      static_cast<double>(again_top) / static_cast<double>(again_total);
  return popularity;
}

}  // namespace kvferry::replay
