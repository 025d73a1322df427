// Session structure: which request continues which, given by the trace or inferred from its paths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "replay/cache_cell.h"
#include "replay/last_references.h"
#include "replay/trace.h"

namespace kvferry::replay {

enum class SessionKind : std::uint8_t {
  kNone,      // Neither session ids nor block ids: nothing can be said.
  kGiven,     // The trace's own session ids.
  kInferred,  // From paths.
};

// "none", "given" or "inferred".
std::string_view ToString(SessionKind kind);

struct SessionPercentiles {
  std::uint64_t p50 = 0;
  std::uint64_t p90 = 0;
  std::uint64_t p99 = 0;
  std::uint64_t max = 0;
};

// Given: a session is the requests with one id; a request without an id is a session of its own.
// Inferred: a session is a path of requests that ends at one that none follows; where two follow
// the same request, both count its earlier turns.
struct SessionStats {
  SessionKind kind = SessionKind::kNone;
  std::uint64_t count = 0;
  std::uint64_t single = 0;  // Sessions of one turn.
  SessionPercentiles turns;
  std::optional<SessionPercentiles>
      gap_ms;  // From a turn to the next; nothing without a second turn.
};

// Whether a request whose path shares `common_blocks` with an earlier one of `earlier_blocks`
// blocks continues it: all but at most the last are reused (an answer fills up a last block that
// was partial, which changes its id), and at least two.
constexpr bool Continues(std::uint32_t common_blocks, std::uint32_t earlier_blocks) {
  return common_blocks >= 2 && std::uint64_t{common_blocks} + 1 >= earlier_blocks;
}

// By request: the one that it follows, from what LastReferences said of it in order. A request
// follows the latest one that holds its deepest hit block, if it continues it.
//
// Thread-compatible. Borrows the trace until destroyed.
class SessionInference {
 public:
  explicit SessionInference(const Trace& trace);

  void Add(std::uint32_t request, const PathReuse& reuse);
  // kNoRequest for a first turn.
  std::span<const std::uint32_t> predecessors() const { return predecessors_; }

 private:
  const Trace& trace_;
  std::vector<std::uint32_t> predecessors_;
  std::vector<EntryIndex> path_;          // Unchained traces: of the request at hand,
  std::vector<EntryIndex> earlier_path_;  // and of the one that it may follow.
};

// `predecessors` may be empty where the trace gives sessions.
SessionStats ComputeSessionStats(const Trace& trace, std::span<const std::uint32_t> predecessors);

// By request: the successor that continues it and how many blocks of the successor's path its input
// and output fill, floor((input + output) / block size); a zero where there is no successor or that
// is no more than the two paths share already. The successor is the next request of the same
// session that continues it, among the next kSuccessorDistanceMax; without session ids, the first
// request that follows it by inference.
std::vector<CellOptions::Output> FindStoredOutputs(const Trace& trace);

// Sub-agents and retries come between two turns; a turn further away than this is not looked for,
// which bounds the search in sessions of thousands of requests.
inline constexpr std::size_t kSuccessorDistanceMax = 8;

}  // namespace kvferry::replay
