// Which of the two ways MIN goes, and what it takes.
#include "replay/min_bound.h"

#include <chrono>

#include "kvferry/types.h"

#include "base/assert.h"
#include "replay/prefix_min.h"
#include "replay/reference_min.h"

namespace kvferry::replay {

CellResult RunMinCell(const Trace& trace, const CellOptions& options) {
  KVFERRY_CHECK(options.capacity_blocks > 0);
  const auto start = std::chrono::steady_clock::now();
  CellResult result;
  if (options.hit_rule == HitRule::kPrefix && trace.is_chained()) {
    result = RunPrefixMin(trace, options);
  } else {
    result = RunReferenceMin(trace, options);
  }
  result.policy = kMinPolicyName;
  result.capacity_blocks = options.capacity_blocks;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::uint64_t MinCellMemoryBytes(const Trace& trace, HitRule hit_rule) {
  const std::uint64_t path_bytes = std::uint64_t{trace.path_blocks_max()} * 3 * sizeof(EntryIndex);
  const std::uint64_t distinct = trace.distinct_blocks();
  if (hit_rule == HitRule::kPrefix && trace.is_chained()) {
    // A path has a few steps, whose vector may have grown to twice their number.
    constexpr std::uint64_t kBytesARequest = 128;
    return distinct * sizeof(std::uint32_t) + trace.requests().size() * kBytesARequest + path_bytes;
  }
  return trace.block_refs() * sizeof(std::uint32_t) + trace.block_refs() / 7 +
         distinct * 2 * sizeof(std::uint32_t) + path_bytes;
}

}  // namespace kvferry::replay
