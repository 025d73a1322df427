// Misses of a policy over the public traces, each reference on its own.
#pragma once

#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "kvferry/policy.h"

#include "replay/cache_cell.h"
#include "replay/read_trace.h"
#include "replay/trace.h"
#include "tests/support/shared_traces.h"
#include "tests/support/status_matchers.h"

namespace kvferry::testing {

struct SharedTrace {
  const char* file;
  std::uint32_t block_tokens;
};

inline constexpr SharedTrace kConversation{"traces/mooncake-conversation/conversation_trace.jsonl",
                                           512};
inline constexpr SharedTrace kRagPulse{"traces/ragpulse/d0-4_blk64.jsonl", 64};

inline replay::Trace ReadShared(const SharedTrace& shared) {
  replay::ReadOptions options;
  options.paths = {SharedPath(shared.file).string()};
  options.block_tokens = shared.block_tokens;
  Result<replay::Trace> trace = replay::ReadTrace(options, [](const replay::ReadProgress&) {});
  EXPECT_OK(trace);
  return trace.ok() ? std::move(*trace) : replay::Trace();
}

template <class Policy>
std::uint64_t BlockRuleMisses(const replay::Trace& trace, std::uint32_t capacity) {
  PolicyOptions policy_options;
  policy_options.entries_max = trace.distinct_blocks();
  policy_options.residents_max = capacity;
  Policy policy(policy_options);
  replay::CellOptions options;
  options.capacity_blocks = capacity;
  options.hit_rule = replay::HitRule::kBlock;
  const replay::CellResult result = replay::CacheCell<Policy>(trace, options, policy).Run();
  return result.lookups - result.hit_blocks;
}

}  // namespace kvferry::testing
