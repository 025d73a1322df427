// Rate, requests a minute and variation of gaps.
#include "replay/arrival_stats.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "replay/reuse_intervals.h"
#include "replay/value_counts.h"

namespace kvferry::replay {
namespace {

constexpr std::uint64_t kMinuteMs = 60'000;

// `times` ascend and are not empty. Empty minutes are counted, not stored: a trace may claim a span
// of any length.
MinutePercentiles CountByMinute(const std::vector<std::int64_t>& times) {
  ValueCounts counts;
  std::uint64_t minutes_with_requests = 0;
  for (std::size_t begin = 0; begin < times.size();) {
    const std::uint64_t minute = ElapsedMs(times.front(), times[begin]) / kMinuteMs;
    std::size_t end = begin;
    while (end < times.size() && ElapsedMs(times.front(), times[end]) / kMinuteMs == minute) {
      ++end;
    }
    counts.Add(end - begin, 1);
    ++minutes_with_requests;
    begin = end;
  }
  const std::uint64_t minutes = ElapsedMs(times.front(), times.back()) / kMinuteMs + 1;
  counts.Add(0, minutes - minutes_with_requests);
  return {.p1 = counts.Percentile(1),
          .p50 = counts.Percentile(50),
          .p99 = counts.Percentile(99),
          .max = counts.Max()};
}

std::optional<double> ComputeGapVariation(const Trace& trace) {
  const auto requests = trace.requests();
  if (requests.size() < 2) {
    return std::nullopt;
  }
  const auto gap_count = static_cast<double>(requests.size() - 1);
  const auto gap_at = [&](std::size_t i) {
    return static_cast<double>(ElapsedMs(requests[i - 1].time_ms, requests[i].time_ms));
  };
  double total = 0;
  for (std::size_t i = 1; i < requests.size(); ++i) {
    total += gap_at(i);
  }
  if (total == 0) {
    return std::nullopt;
  }
  const double mean = total / gap_count;
  double squares = 0;
  for (std::size_t i = 1; i < requests.size(); ++i) {
    squares += (gap_at(i) - mean) * (gap_at(i) - mean);
  }
  return std::sqrt(squares / gap_count) / mean;
}

}  // namespace

ArrivalStats ComputeArrivalStats(const Trace& trace) {
  ArrivalStats stats;
  if (trace.requests().empty()) {
    return stats;
  }
  std::vector<std::int64_t> times;
  times.reserve(trace.requests().size());
  for (const TraceRequest& request : trace.requests()) {
    times.push_back(request.time_ms);
  }
  if (!std::is_sorted(times.begin(), times.end())) {
    std::sort(times.begin(), times.end());
  }
  stats.per_minute = CountByMinute(times);
  const std::uint64_t span_ms = ElapsedMs(times.front(), times.back());
  if (span_ms > 0) {
    stats.per_second = static_cast<double>(times.size()) * 1000.0 / static_cast<double>(span_ms);
  }
  stats.gap_variation = ComputeGapVariation(trace);
  stats.distinct_timestamps =
      static_cast<std::uint64_t>(std::unique(times.begin(), times.end()) - times.begin());
  return stats;
}

std::uint64_t SpanMs(const Trace& trace) {
  if (trace.requests().empty()) {
    return 0;
  }
  const auto [earliest, latest] = std::minmax_element(
      trace.requests().begin(), trace.requests().end(),
      [](const TraceRequest& a, const TraceRequest& b) { return a.time_ms < b.time_ms; });
  return ElapsedMs(earliest->time_ms, latest->time_ms);
}

}  // namespace kvferry::replay
