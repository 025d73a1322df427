// DecodePlan: which sessions `bench decode` decodes when, and how many blocks that takes.
#pragma once

#include <cstdint>

#include "kvferry/status.h"

namespace kvferry::bench {

// Sessions of equal length take turns in batches, one batch after the other, round and round; each
// step of a turn decodes one token of every session of the batch. A plain value, made by Make().
struct DecodePlan {
  std::uint32_t sessions = 0;
  std::uint32_t context_tokens = 0;  // Of each before its first step.
  std::uint32_t block_tokens = 0;
  std::uint32_t hbm_blocks = 0;
  std::uint32_t steps = 0;
  std::uint32_t turn_steps = 0;
  std::uint32_t hint_turns = 0;      // How many turns ahead a session is named; 0: not at all.
  std::uint32_t batch_sessions = 0;  // Set by Make().

  // Takes the sizes of `wanted` and chooses the largest batch that leaves room for another one
  // beside it. kInvalidArgument, naming the option, where HBM is too small for that, or has room
  // for all sessions, so that none would have to leave.
  static Result<DecodePlan> Make(const DecodePlan& wanted);

  struct Turn {
    std::uint32_t first_session = 0;
    std::uint32_t sessions = 0;
    std::uint32_t first_step = 0;
    std::uint32_t steps = 0;
    std::uint32_t tokens = 0;  // Of each session before the turn.
  };
  std::uint32_t batches() const { return (sessions + batch_sessions - 1) / batch_sessions; }
  std::uint32_t turns() const { return (steps + turn_steps - 1) / turn_steps; }
  Turn TurnAt(std::uint32_t turn) const;
  // The most that a session has; it takes so many places of HBM whenever it is there.
  std::uint32_t tokens_max() const;
  std::uint32_t session_blocks() const;
  // Of all sessions together; stays below 2^63.
  std::uint64_t total_blocks() const { return std::uint64_t{sessions} * session_blocks(); }
};

}  // namespace kvferry::bench
