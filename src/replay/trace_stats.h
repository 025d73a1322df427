// TraceStats: what a trace is, before any policy: lengths, reuse, sessions, arrivals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "replay/arrival_stats.h"
#include "replay/cache_cell.h"
#include "replay/reuse_intervals.h"
#include "replay/session_inference.h"
#include "replay/trace.h"

namespace kvferry::replay {

// Tokens a request.
struct LengthStats {
  double mean = 0;
  std::uint64_t p50 = 0;
  std::uint64_t p90 = 0;
  std::uint64_t p99 = 0;
  std::uint64_t max = 0;
};

// What a cache that never evicts hits, counted as a cell counts: after the warm-up, under the same
// hit rule, with the same outputs stored. No policy can hit more.
struct InfiniteCache {
  std::uint64_t requests = 0;       // Counted ones.
  std::uint64_t lookups = 0;        // Their block references,
  std::uint64_t lookup_tokens = 0;  // and input tokens.
  std::uint64_t hit_blocks = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t hit_tokens_full_blocks = 0;  // Without the tokens of last blocks that are not full.
  std::uint64_t requests_with_hit = 0;
  std::uint64_t second_half_tokens = 0;  // Of counted requests from number floor(n / 2) on.
  std::uint64_t second_half_hit_tokens = 0;

  // 0 where nothing is looked up.
  double block_ratio() const;
  double token_ratio() const;
  double token_ratio_second_half() const;
};

struct TraceStats {
  std::uint64_t requests = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t span_ms = 0;     // From the earliest to the latest request.
  std::uint64_t block_refs = 0;  // 0 for a trace without block ids, as are the distinct blocks.
  std::uint64_t distinct_blocks = 0;
  bool is_chained = true;  // As Trace has it.
  LengthStats input;
  LengthStats output;
  std::optional<InfiniteCache> infinite;  // Nothing for a trace without block ids, where hits are
  std::optional<ReuseIntervals> reuse;    // not defined. Nothing also where no block comes twice.
  std::optional<BlockPopularity> blocks;
  SessionStats sessions;
  ArrivalStats arrivals;
};

struct StatsOptions {
  HitRule hit_rule = HitRule::kPrefix;
  std::size_t warmup_requests = 0;  // The first so many are left out of InfiniteCache only.
  std::span<const CellOptions::Output> outputs = {};  // As CellOptions has it; empty: none.
};

// Percentiles are nearest rank. Memory: 12 bytes a distinct block and a few a request.
TraceStats ComputeTraceStats(const Trace& trace, const StatsOptions& options);

// numerator / denominator, 0 where the denominator is.
double Ratio(std::uint64_t numerator, std::uint64_t denominator);

}  // namespace kvferry::replay
