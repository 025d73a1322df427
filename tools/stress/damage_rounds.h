// RunDamageRounds: one store on real files, damaged again and again in another way, and opened by
// an engine that must not serve a wrong byte from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "stress/store_damage.h"

namespace kvferry::stress {

struct DamageOptions {
  std::string folder;  // Empty or not there; the store stays in it.
  std::uint64_t seed = 1;
  std::uint64_t rounds = 1;
};

struct DamageViolation {
  std::uint64_t round = 0;
  std::string text;
};

struct DamageOutcome {
  std::uint64_t rounds = 0;
  std::uint64_t operations = 0;
  std::uint64_t blocks_compared = 0;  // That came back.
  std::uint64_t blocks_lost = 0;      // That a sound store has, and the damaged one had not.
  std::uint64_t refused = 0;          // Stores that did not open, or not at once.
  // Rounds by part and kind, all that there are.
  std::vector<std::pair<std::string, std::uint64_t>> by_damage;
  std::uint64_t violations = 0;
  std::optional<DamageViolation> first;
};

// The store is what is left of some killed processes after an orderly close (RunKillRounds). Each
// round damages a copy of it once, and a process opens that, gets every key, works a little and
// closes it. It must come to its end; what it gets must be right; and damage in a payload may cost
// no block but those it touches, damage in one copy of the superblock or in a footer none at all.
// Ends at the first violation, with the damaged store in the folder; otherwise the sound one is put
// back. Errors as of RunKillRounds; kInternal: that one found something.
//
// One at a time, and not while other threads of the process run.
Result<DamageOutcome> RunDamageRounds(const DamageOptions& options,
                                      FunctionRef<void(std::uint64_t)> on_progress);

}  // namespace kvferry::stress
