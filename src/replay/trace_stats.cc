// One pass over the paths for everything that depends on them, one over the requests for the rest.
#include "replay/trace_stats.h"

#include <algorithm>
#include <vector>

#include "replay/last_references.h"
#include "replay/value_counts.h"

namespace kvferry::replay {
namespace {

LengthStats ComputeLengths(const Trace& trace, std::uint32_t TraceRequest::*length) {
  ValueCounts counts;
  std::uint64_t total = 0;
  for (const TraceRequest& request : trace.requests()) {
    counts.Add(request.*length, 1);
    total += request.*length;
  }
  if (counts.is_empty()) {
    return {};
  }
  return {.mean = static_cast<double>(total) / static_cast<double>(counts.total_count()),
          .p50 = counts.Percentile(50),
          .p90 = counts.Percentile(90),
          .p99 = counts.Percentile(99),
          .max = counts.Max()};
}

// Counts the hits of an unbounded cache, request by request.
class InfiniteCounter {
 public:
  InfiniteCounter(const Trace& trace, const StatsOptions& options)
      : trace_(trace), options_(options) {}

  struct Hits {
    std::uint64_t blocks = 0;
    std::uint64_t tokens = 0;
    std::uint64_t tokens_full_blocks = 0;
  };

  // Of a path's first `count` blocks.
  Hits OfPrefix(const TraceRequest& request, std::uint32_t count) const {
    const std::uint64_t block_tokens = trace_.origin().block_tokens;
    const std::uint64_t tokens = trace_.PrefixTokens(request, count);
    return {count, tokens, tokens / block_tokens * block_tokens};
  }

  // Adds a run of a path to `hits`: the block rule.
  void AddRun(const TraceRequest& request, const ReferenceRun& run, Hits& hits) const {
    const std::uint64_t block_tokens = trace_.origin().block_tokens;
    const std::uint64_t tokens = trace_.PrefixTokens(request, run.position + run.count) -
                                 trace_.PrefixTokens(request, run.position);
    hits.blocks += run.count;
    hits.tokens += tokens;
    hits.tokens_full_blocks += tokens / block_tokens * block_tokens;
  }

  void Count(std::size_t index, const Hits& hits) {
    if (index < options_.warmup_requests) {
      return;
    }
    const TraceRequest& request = trace_.requests()[index];
    ++result_.requests;
    result_.lookups += request.block_count;
    result_.lookup_tokens += request.input_tokens;
    result_.hit_blocks += hits.blocks;
    result_.hit_tokens += hits.tokens;
    result_.hit_tokens_full_blocks += hits.tokens_full_blocks;
    result_.requests_with_hit += hits.blocks > 0 ? 1 : 0;
    if (index >= trace_.requests().size() / 2) {
      result_.second_half_tokens += request.input_tokens;
      result_.second_half_hit_tokens += hits.tokens;
    }
  }

  const InfiniteCache& result() const { return result_; }

 private:
  const Trace& trace_;
  const StatsOptions& options_;
  InfiniteCache result_;
};

// Stored outputs make blocks present that no request has referenced yet, so the runs of
// LastReferences do not tell: every block is looked at.
InfiniteCache CountWithOutputs(const Trace& trace, const StatsOptions& options) {
  InfiniteCounter counter(trace, options);
  std::vector<bool> is_present(trace.distinct_blocks());
  std::vector<EntryIndex> path;
  const auto read = [&](const TraceRequest& request) {
    path.resize(request.block_count);
    trace.ReadPath(request, path);
  };
  for (std::size_t index = 0; index < trace.requests().size(); ++index) {
    const TraceRequest& request = trace.requests()[index];
    read(request);
    InfiniteCounter::Hits hits;
    std::uint32_t leading = 0;
    while (leading < path.size() && is_present[static_cast<std::uint32_t>(path[leading])]) {
      ++leading;
    }
    if (options.hit_rule == HitRule::kPrefix) {
      hits = counter.OfPrefix(request, leading);
    }
    for (std::uint32_t i = 0; i < path.size(); ++i) {
      auto present = is_present[static_cast<std::uint32_t>(path[i])];
      if (present && options.hit_rule == HitRule::kBlock) {
        counter.AddRun(request, {.position = i, .count = 1}, hits);
      }
      present = true;
    }
    counter.Count(index, hits);
    const CellOptions::Output& output = options.outputs[index];
    if (output.block_count > 0) {
      read(trace.requests()[output.successor]);
      for (std::uint32_t i = 0; i < output.block_count; ++i) {
        is_present[static_cast<std::uint32_t>(path[i])] = true;
      }
    }
  }
  return counter.result();
}

void ComputePathStats(const Trace& trace, const StatsOptions& options, TraceStats& stats) {
  LastReferences references(trace);
  ReuseCounter reuse_counter(trace);
  InfiniteCounter infinite(trace, options);
  SessionInference inference(trace);
  for (std::uint32_t index = 0; index < trace.requests().size(); ++index) {
    const TraceRequest& request = trace.requests()[index];
    InfiniteCounter::Hits hits;
    const PathReuse reuse = references.Reference(request, [&](const ReferenceRun& run) {
      reuse_counter.Add(index, run);
      if (options.hit_rule == HitRule::kBlock) {
        infinite.AddRun(request, run, hits);
      }
    });
    if (options.hit_rule == HitRule::kPrefix) {
      hits = infinite.OfPrefix(request, reuse.leading_seen);
    }
    infinite.Count(index, hits);
    if (!trace.origin().has_sessions) {
      inference.Add(index, reuse);
    }
  }
  stats.infinite = options.outputs.empty() ? infinite.result() : CountWithOutputs(trace, options);
  stats.reuse = reuse_counter.Intervals();
  stats.blocks = ComputeBlockPopularity(trace);
  stats.sessions = ComputeSessionStats(trace, inference.predecessors());
}

}  // namespace

double Ratio(std::uint64_t numerator, std::uint64_t denominator) {
  return denominator == 0 ? 0 : static_cast<double>(numerator) / static_cast<double>(denominator);
}

double InfiniteCache::block_ratio() const {
  return Ratio(hit_blocks, lookups);
}
double InfiniteCache::token_ratio() const {
  return Ratio(hit_tokens, lookup_tokens);
}
double InfiniteCache::token_ratio_second_half() const {
  return Ratio(second_half_hit_tokens, second_half_tokens);
}

TraceStats ComputeTraceStats(const Trace& trace, const StatsOptions& options) {
  TraceStats stats;
  stats.requests = trace.requests().size();
  stats.input_tokens = trace.input_tokens();
  stats.block_refs = trace.block_refs();
  stats.distinct_blocks = trace.distinct_blocks();
  stats.is_chained = trace.is_chained();
  for (const TraceRequest& request : trace.requests()) {
    stats.output_tokens += request.output_tokens;
  }
  stats.span_ms = SpanMs(trace);
  stats.input = ComputeLengths(trace, &TraceRequest::input_tokens);
  stats.output = ComputeLengths(trace, &TraceRequest::output_tokens);
  stats.arrivals = ComputeArrivalStats(trace);
  if (trace.origin().has_blocks && trace.origin().block_tokens > 0) {
    ComputePathStats(trace, options, stats);
  } else {
    stats.sessions = ComputeSessionStats(trace, {});
  }
  return stats;
}

}  // namespace kvferry::replay
