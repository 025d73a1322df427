// RunKillRounds: processes with an engine on real files, killed one after the other, each of which
// first looks for what was acknowledged before.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "stress/block_model.h"
#include "stress/kill_worker.h"
#include "tiers/nvme/kill_points.h"

namespace kvferry::stress {

struct KillOptions {
  std::string folder;  // Empty or not there; the store stays in it.
  std::uint64_t seed = 1;
  std::uint64_t kills = 1;
};

struct KillViolation {
  std::uint64_t kill = 0;  // How many processes had been killed by then.
  std::string text;
};

struct KillOutcome {
  std::uint64_t kills = 0;
  std::uint64_t operations = 0;
  std::uint64_t acknowledged = 0;     // Blocks of which Persist or Erase said so.
  std::uint64_t blocks_compared = 0;  // That came back.
  std::uint64_t blocks_found = 0;     // Persisted ones that were there after a restart.
  std::uint64_t segments_reused = 0;
  std::array<std::uint64_t, tiers::kKillPointCount> at_points{};  // Kills at each kill point.
  std::uint64_t at_random = 0;                                    // At some other moment.
  std::uint64_t violations = 0;
  std::optional<KillViolation> first;
  // Of the store that stays: what may be found in it, and its size.
  BlockModel model{kKillNamespaces, kKillKeysPerNamespace};
  std::uint64_t capacity_bytes = 0;
};

// After the last kill one more process looks, and closes the store. Ends at the first process that
// finds something wrong: the model is no truth any more then. The first kills are at the kill
// points, one after the other; later ones at a random moment, or a random pass of one of them.
// kInvalidArgument: the folder holds something. kIoError if processes cannot be started.
//
// One at a time, and not while other threads of the process run.
Result<KillOutcome> RunKillRounds(const KillOptions& options,
                                  FunctionRef<void(std::uint64_t)> on_progress);

}  // namespace kvferry::stress
