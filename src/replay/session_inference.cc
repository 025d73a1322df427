// Sessions from ids or from paths, and the outputs that successors prove.
#include "replay/session_inference.h"

#include <algorithm>

#include "base/assert.h"
#include "replay/reuse_intervals.h"
#include "replay/value_counts.h"

namespace kvferry::replay {
namespace {

// Blocks that two paths have in common from the root on; the buffers are the caller's to reuse.
std::uint32_t CountCommonBlocks(const Trace& trace,
                                const TraceRequest& a,
                                const TraceRequest& b,
                                std::vector<EntryIndex>& path_a,
                                std::vector<EntryIndex>& path_b) {
  path_a.resize(a.block_count);
  path_b.resize(b.block_count);
  trace.ReadPath(a, path_a);
  trace.ReadPath(b, path_b);
  const auto differ =
      std::mismatch(path_a.begin(), path_a.end(), path_b.begin(), path_b.end()).first;
  return static_cast<std::uint32_t>(differ - path_a.begin());
}

SessionPercentiles ToPercentiles(ValueCounts& counts) {
  return {.p50 = counts.Percentile(50),
          .p90 = counts.Percentile(90),
          .p99 = counts.Percentile(99),
          .max = counts.Max()};
}

// By request: the request before it in its given session, kNoRequest for a first turn.
std::vector<std::uint32_t> FindGivenPredecessors(const Trace& trace) {
  std::vector<std::uint32_t> predecessors(trace.requests().size(), kNoRequest);
  std::vector<std::uint32_t> last(trace.session_count(), kNoRequest);
  std::uint32_t index = 0;
  for (const TraceRequest& request : trace.requests()) {
    if (request.session != kNoSession) {
      predecessors[index] = last[request.session];
      last[request.session] = index;
    }
    ++index;
  }
  return predecessors;
}

// Finds successors and what they prove to be stored.
class OutputFinder {
 public:
  explicit OutputFinder(const Trace& trace) : trace_(trace), outputs_(trace.requests().size()) {}

  // True if `later` continues `earlier`, which is then settled.
  bool Try(std::uint32_t earlier, std::uint32_t later) {
    const TraceRequest& before = trace_.requests()[earlier];
    const TraceRequest& after = trace_.requests()[later];
    const std::uint32_t common = CountCommonBlocks(trace_, before, after, path_, later_path_);
    if (!Continues(common, before.block_count)) {
      return false;
    }
    const std::uint64_t filled =
        (std::uint64_t{before.input_tokens} + before.output_tokens) / trace_.origin().block_tokens;
    const std::uint64_t stored = std::min<std::uint64_t>(filled, after.block_count);
    if (stored > common) {
      outputs_[earlier] = {.successor = later, .block_count = static_cast<std::uint32_t>(stored)};
    }
    return true;
  }

  std::vector<CellOptions::Output> Take() { return std::move(outputs_); }

 private:
  const Trace& trace_;
  std::vector<CellOptions::Output> outputs_;
  std::vector<EntryIndex> path_;
  std::vector<EntryIndex> later_path_;
};

void TryGivenSessions(const Trace& trace, OutputFinder& finder) {
  // The next request of the same session, by request.
  std::vector<std::uint32_t> next(trace.requests().size(), kNoRequest);
  const std::vector<std::uint32_t> predecessors = FindGivenPredecessors(trace);
  for (std::uint32_t request = 0; request < predecessors.size(); ++request) {
    if (predecessors[request] != kNoRequest) {
      next[predecessors[request]] = request;
    }
  }
  for (std::uint32_t request = 0; request < next.size(); ++request) {
    std::uint32_t later = next[request];
    for (std::size_t i = 0; i < kSuccessorDistanceMax && later != kNoRequest; ++i) {
      if (finder.Try(request, later)) {
        break;
      }
      later = next[later];
    }
  }
}

void TryInferredSessions(const Trace& trace, OutputFinder& finder) {
  LastReferences references(trace);
  SessionInference inference(trace);
  std::vector<bool> is_settled(trace.requests().size());
  for (std::uint32_t request = 0; request < trace.requests().size(); ++request) {
    inference.Add(request, references.Reference(trace.requests()[request], [](const auto&) {}));
    const std::uint32_t earlier = inference.predecessors()[request];
    if (earlier != kNoRequest && !is_settled[earlier]) {
      is_settled[earlier] = finder.Try(earlier, request);
    }
  }
}

}  // namespace

std::string_view ToString(SessionKind kind) {
  switch (kind) {
    case SessionKind::kNone:
      return "none";
    case SessionKind::kGiven:
      return "given";
    case SessionKind::kInferred:
      return "inferred";
  }
  return "none";
}

SessionInference::SessionInference(const Trace& trace)
    : trace_(trace), predecessors_(trace.requests().size(), kNoRequest) {}

void SessionInference::Add(std::uint32_t request, const PathReuse& reuse) {
  if (reuse.latest == kNoRequest) {
    return;
  }
  const TraceRequest& earlier = trace_.requests()[reuse.latest];
  // A chained path that holds a block holds everything before it, and not the block behind it,
  // which is new. Elsewhere the two have to be compared.
  const std::uint32_t common =
      trace_.is_chained()
          ? reuse.leading_seen
          : CountCommonBlocks(trace_, earlier, trace_.requests()[request], earlier_path_, path_);
  if (Continues(common, earlier.block_count)) {
    predecessors_[request] = reuse.latest;
  }
}

SessionStats ComputeSessionStats(const Trace& trace, std::span<const std::uint32_t> predecessors) {
  SessionStats stats;
  std::vector<std::uint32_t> given;
  if (trace.origin().has_sessions) {
    stats.kind = SessionKind::kGiven;
    given = FindGivenPredecessors(trace);
    predecessors = given;
  } else if (trace.origin().has_blocks) {
    stats.kind = SessionKind::kInferred;
  }
  if (stats.kind == SessionKind::kNone || trace.requests().empty()) {
    return stats;
  }
  KVFERRY_CHECK(predecessors.size() == trace.requests().size());
  ValueCounts turns;
  ValueCounts gaps;
  std::vector<std::uint32_t> depths(predecessors.size(), 1);
  std::vector<bool> is_followed(predecessors.size());
  for (std::size_t i = 0; i < predecessors.size(); ++i) {
    const std::uint32_t previous = predecessors[i];
    if (previous != kNoRequest) {
      depths[i] = depths[previous] + 1;
      is_followed[previous] = true;
      gaps.Add(ElapsedMs(trace.requests()[previous].time_ms, trace.requests()[i].time_ms), 1);
    }
  }
  for (std::size_t i = 0; i < predecessors.size(); ++i) {
    if (!is_followed[i]) {
      ++stats.count;
      stats.single += depths[i] == 1 ? 1U : 0U;
      turns.Add(depths[i], 1);
    }
  }
  stats.turns = ToPercentiles(turns);
  if (!gaps.is_empty()) {
    stats.gap_ms = ToPercentiles(gaps);
  }
  return stats;
}

std::vector<CellOptions::Output> FindStoredOutputs(const Trace& trace) {
  OutputFinder finder(trace);
  if (!trace.origin().has_blocks || trace.origin().block_tokens == 0) {
    return finder.Take();
  }
  if (trace.origin().has_sessions) {
    TryGivenSessions(trace, finder);
  } else {
    TryInferredSessions(trace, finder);
  }
  return finder.Take();
}

}  // namespace kvferry::replay
