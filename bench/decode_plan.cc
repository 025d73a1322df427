// Turns and batches, and the sizes that follow.
#include "bench/decode_plan.h"

#include <algorithm>
#include <string>

namespace kvferry::bench {

Result<DecodePlan> DecodePlan::Make(const DecodePlan& wanted) {
  DecodePlan plan = wanted;
  // A larger batch comes round sooner, so its sessions grow longer.
  const auto fits = [&plan](std::uint32_t batch) {
    plan.batch_sessions = batch;
    return std::uint64_t{2} * batch * plan.session_blocks() <= plan.hbm_blocks;
  };
  if (!fits(1)) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "--hbm-blocks " + std::to_string(plan.hbm_blocks) + ": a session has " +
                             std::to_string(plan.session_blocks()) +
                             " blocks, and there must be room for two of them, the one that is "
                             "decoded and the next one; give " +
                             std::to_string(std::uint64_t{2} * plan.session_blocks()) +
                             " or more, or lower --context");
  }
  std::uint32_t batch = 1;
  while (std::uint64_t{2} * (batch + 1) < plan.sessions && fits(batch + 1)) {
    ++batch;
  }
  plan.batch_sessions = batch;
  if (plan.sessions < 3) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "--sessions " + std::to_string(plan.sessions) +
                             ": one is decoded, one comes and one must be elsewhere; give 3 or "
                             "more");
  }
  if (plan.total_blocks() <= plan.hbm_blocks) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "--sessions " + std::to_string(plan.sessions) + ": their " +
                             std::to_string(plan.total_blocks()) + " blocks fit in the " +
                             std::to_string(plan.hbm_blocks) +
                             " of --hbm-blocks, so none would have to leave; give more sessions, "
                             "or fewer blocks");
  }
  return plan;
}

DecodePlan::Turn DecodePlan::TurnAt(std::uint32_t turn) const {
  Turn found;
  const std::uint32_t batch = turn % batches();
  found.first_session = batch * batch_sessions;
  found.sessions = std::min(batch_sessions, sessions - found.first_session);
  found.first_step = turn * turn_steps;
  found.steps = std::min(turn_steps, steps - found.first_step);
  found.tokens = context_tokens + turn / batches() * turn_steps;
  return found;
}

std::uint32_t DecodePlan::tokens_max() const {
  const std::uint32_t rounds = (turns() + batches() - 1) / batches();
  return context_tokens + rounds * turn_steps;
}

std::uint32_t DecodePlan::session_blocks() const {
  return (tokens_max() + block_tokens - 1) / block_tokens;
}

}  // namespace kvferry::bench
