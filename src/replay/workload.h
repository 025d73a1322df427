// GenerateWorkload: a seeded trace of chats, agents and single calls, for use without any file.
#pragma once

#include <cstdint>

#include "kvferry/status.h"

#include "replay/trace.h"

namespace kvferry::replay {

// What is generated. Sessions of three kinds begin as a Poisson process:
//
//   single  one request: a shared system prompt and a text of its own;
//   chat    turns minutes apart, each with the whole history; some go back to an earlier turn to
//           edit or regenerate it, so sessions are trees;
//   agent   a long shared prefix (instructions and tools), then many short turns seconds apart,
//           with a person's pause now and then.
//
// System prompts and agent prefixes are shared by all sessions, with Zipf popularity. The numbers
// come from published measurements where there are any:
//
//   input of single calls, p50 and p99 1,469 and 7,436 tokens, output p50 and p99 13 and 252:
//     Azure 2023 code trace (Patel et al., Splitwise, ISCA 2024);
//   73 % of chats have several turns: ShareGPT (Gao et al., CachedAttention, ATC 2024);
//   output of chats, p50 and p99 129 and 601: Azure 2023 conversation trace (Splitwise);
//   gaps between a chat's turns, p50, p90 and p99 123, 474 and 1,458 s, and 43 turns at most:
//     Mooncake conversation trace (Qin et al., FAST 2025);
//   429 tokens added to an agent's context a turn, on average: DualPath (arXiv 2602.21548, 2026);
//   turns of an agent, p50, p90 and p99 35, 142 and 219; gaps p50, p90 and p99 16, 100 and 810 s;
//   output p50 and p99 209 and 3,498: the coding-agent sessions of docs/traces.md.
//
// Assumed, for want of a measurement: lengths of system prompts, agent prefixes and a chat's
// messages, the Zipf exponent, the share of turns that go back (one in ten), and the default mix.
struct WorkloadOptions {
  std::uint64_t seed = 1;
  std::uint32_t requests_max = 20'000;
  std::uint64_t duration_s = 0;  // Ends before this time too; 0: by requests_max only.
  double sessions_per_minute = 60;
  std::uint32_t block_tokens = 64;
  // Shares of the sessions that begin; only their ratios count.
  double single_share = 0.44;
  double chat_share = 0.55;
  double agent_share = 0.01;
  std::uint32_t system_prompts = 200;
  std::uint32_t agent_prefixes = 8;
  double prompt_exponent = 1;  // Of the Zipf popularity of both.
  TraceSelection selection;
  std::uint64_t memory_max_bytes = UINT64_MAX;
};

// The same trace on every machine for the same options. Only full blocks have ids. The origin's
// name is "generated:chat-agents (seed N)", its sha256 that of the trace as WriteMooncake writes
// it.
// kInvalidArgument, naming option, reason and remedy, for options out of range; kResourceExhausted
// as TraceBuilder.
Result<Trace> GenerateWorkload(const WorkloadOptions& options);

}  // namespace kvferry::replay
