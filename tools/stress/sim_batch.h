// RunSimSeeds: many seeded runs in child processes, so that a violation, which stops its process,
// is found, told and made smaller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "stress/sim_world.h"

namespace kvferry::stress {

struct SimBatchOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 1;
  std::uint32_t operations = 2'000;
  FaultLevel faults = FaultLevel::kHostile;
  std::uint32_t jobs = 1;                // Processes at a time.
  std::uint32_t seed_seconds_max = 120;  // A run that takes longer hangs: a violation.
  std::uint32_t repeated_percent = 1;    // Seeds that are run twice: the same run, byte for byte.
  std::uint64_t seeds_per_process = 64;  // A process costs some milliseconds.
  // As in SimOptions; the seeds' own threads make them differ from run to run then.
  std::uint32_t power_cuts = 0;
  std::string manifest_folder = {};
  // Not empty: run i is the script of `script_seed` with fault i, and no seed's own run.
  std::vector<std::optional<NthFault>> nth_faults = {};
  std::uint64_t script_seed = 1;
};

struct SimViolation {
  std::uint64_t seed = 0;
  std::uint32_t operations = 0;  // As few as were found to show it.
  std::string text;              // What the process said last.
};

struct SimBatchOutcome {
  std::uint64_t seeds = 0;
  SimCounts counts;
  sim::FaultCounts faults;
  std::uint64_t violations = 0;
  std::optional<SimViolation> first;  // Of them.
};

// Goes on after a violation with the next seeds. `on_progress` is told how many seeds are done.
// kIoError if processes cannot be started.
//
// One at a time, and not while other threads of the process run.
Result<SimBatchOutcome> RunSimSeeds(const SimBatchOptions& options,
                                    FunctionRef<void(std::uint64_t)> on_progress);

}  // namespace kvferry::stress
