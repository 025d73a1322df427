// Runs over simulated drives: seeds, power cuts, and each operation in turn.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "exit_code.h"
#include "stress/sim_batch.h"
#include "stress_runs.h"

namespace kvferry::tool {
namespace {

// From here on, every kind of fault must have happened: a run that injects none of a kind has not
// tested it.
constexpr std::uint64_t kOperationsForEveryFault = 100'000;
// And for the two moments of a power cut.
constexpr std::uint64_t kCutsForEveryKind = 200;
// Power cuts of one seed.
constexpr std::uint64_t kCutsPerSeed = 25;
constexpr std::uint64_t kDriveOperationsOfScript = 300;
constexpr std::uint64_t kRunsForEveryFault = 500;

stress::FaultLevel LevelOf(const std::string& name) {
  return name == "none"   ? stress::FaultLevel::kNone
         : name == "rare" ? stress::FaultLevel::kRare
                          : stress::FaultLevel::kHostile;
}

bool CanHappen(sim::SimFault fault) {
  return sim::Befalls(fault, sim::SimTarget::kRead) || sim::Befalls(fault, sim::SimTarget::kWrite);
}

std::string ReplayCommand(const StressArguments& arguments, const stress::SimViolation& violation) {
  return "kvferry stress --sim --seeds 1 --seed " + std::to_string(violation.seed) + " --ops " +
         std::to_string(violation.operations) + " --faults " + arguments.level;
}

StressReport ReportOf(const StressArguments& arguments, const stress::SimBatchOutcome& outcome) {
  const stress::SimCounts& counts = outcome.counts;
  StressReport report;
  report.kind = "sim";
  report.seed = arguments.seed;
  report.counts = {{"seeds", outcome.seeds},
                   {"operations", counts.operations},
                   {"steps", counts.steps},
                   {"blocks compared", counts.blocks_compared},
                   {"hits nvme", counts.hits_nvme},
                   {"offloads", counts.offloads},
                   {"evictions", counts.evictions},
                   {"coalesced reads", counts.coalesced_reads},
                   {"failed checks", counts.failed_checks},
                   {"cancelled", counts.cancelled},
                   {"deadlines missed", counts.deadlines_missed},
                   {"other namespace", counts.other_namespace}};
  report.violations = outcome.violations;
  for (const sim::SimFault fault : sim::AllSimFaults()) {
    if (CanHappen(fault)) {
      report.faults.emplace_back(sim::ToString(fault), outcome.faults.of(fault));
    }
  }
  if (outcome.first) {
    report.failure = StressFailure{outcome.first->seed,
                                   {"operations", outcome.first->operations},
                                   outcome.first->text,
                                   ReplayCommand(arguments, *outcome.first)};
  }
  return report;
}

// A folder for the time of a run, which nothing is left in.
class EmptyFolder {
 public:
  EmptyFolder() {
    std::error_code error;
    std::string pattern = std::filesystem::temp_directory_path(error) / "kvferry_stress_XXXXXX";
    if (!error && ::mkdtemp(pattern.data()) != nullptr) {
      path_ = pattern;
    }
  }
  EmptyFolder(const EmptyFolder&) = delete;
  EmptyFolder& operator=(const EmptyFolder&) = delete;
  ~EmptyFolder() {
    if (!path_.empty()) {
      ::rmdir(path_.c_str());
    }
  }
  // Empty if it could not be made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Makes the script long enough for so many operations of the drive, and tells what it has.
Result<std::uint32_t> LengthOfScript(stress::SimBatchOptions options, stress::SimCounts& counts) {
  options.seeds = 1;
  options.nth_faults = {std::nullopt};
  constexpr std::uint32_t kOperationsMax = 6'400;
  for (options.operations = 50; options.operations <= kOperationsMax; options.operations *= 2) {
    KVFERRY_ASSIGN_OR_RETURN(const stress::SimBatchOutcome outcome,
                             stress::RunSimSeeds(options, [](std::uint64_t) {}));
    if (outcome.first) {
      return Status::Error(StatusCode::kInternal,
                           "the script fails without a fault: " + outcome.first->text);
    }
    counts = outcome.counts;
    if (counts.drive_operations >= kDriveOperationsOfScript) {
      return options.operations;
    }
  }
  return Status::Error(StatusCode::kInvalidArgument,
                       "this --seed has a script that hardly uses the drive; choose another one");
}

// Of all faults at all operations every so many-th.
std::vector<std::optional<stress::NthFault>> EachFaultAtEach(const stress::SimCounts& script,
                                                             std::uint64_t every) {
  std::uint64_t index = 0;
  std::vector<std::optional<stress::NthFault>> faults;
  for (std::uint64_t i = 0; i < script.drive_operations + script.batches; ++i) {
    const bool is_batch = i >= script.drive_operations;
    const std::uint64_t number = is_batch ? i - script.drive_operations : i;
    for (std::size_t choice = 0; choice < 2 * sim::kSimFaultCount; ++choice) {
      const sim::SimFault fault = sim::AllSimFaults().at(choice / 2);
      const bool is_lasting = choice % 2 == 1;
      if (is_batch == sim::Befalls(fault, sim::SimTarget::kBatch) && index++ % every == 0) {
        faults.emplace_back(stress::NthFault{number, is_batch, fault, is_lasting});
      }
    }
  }
  return faults;
}

}  // namespace

int RunSim(const StressArguments& arguments) {
  if (arguments.seed > UINT64_MAX - arguments.seeds) {
    return ReportStatus(Status::Error(StatusCode::kInvalidArgument,
                                      "--seed and --seeds together pass the last seed, 2^64 - 1"));
  }
  stress::SimBatchOptions options;
  options.first_seed = arguments.seed;
  options.seeds = arguments.seeds;
  options.operations = arguments.operations;
  options.faults = LevelOf(arguments.level);
  options.jobs = arguments.jobs;
  const StressProgress progress(arguments, "seeds", arguments.seeds);
  const auto show = [&](std::uint64_t done) {
    progress.Show(done);
  };
  const Result<stress::SimBatchOutcome> outcome = stress::RunSimSeeds(options, show);
  if (!outcome.has_value()) {
    return ReportStatus(outcome.error());
  }
  return PrintReport(
      arguments, ReportOf(arguments, *outcome),
      arguments.level != "none" && outcome->counts.operations >= kOperationsForEveryFault);
}

int RunPowerCuts(const StressArguments& arguments) {
  const EmptyFolder folder;
  if (folder.path().empty()) {
    return ReportStatus(Status::Error(StatusCode::kIoError, "no temporary folder can be made"));
  }
  stress::SimBatchOptions options;
  options.first_seed = arguments.seed;
  options.seeds = (arguments.power_cuts + kCutsPerSeed - 1) / kCutsPerSeed;
  options.faults = stress::FaultLevel::kNone;
  options.jobs = arguments.jobs;
  options.repeated_percent = 0;
  options.seeds_per_process = 4;
  options.power_cuts = static_cast<std::uint32_t>(std::min(kCutsPerSeed, arguments.power_cuts));
  options.manifest_folder = folder.path();
  const StressProgress progress(arguments, "power cuts", arguments.power_cuts);
  const auto show = [&](std::uint64_t done) {
    progress.Show(std::min(done * kCutsPerSeed, arguments.power_cuts));
  };
  const Result<stress::SimBatchOutcome> outcome = stress::RunSimSeeds(options, show);
  if (!outcome.has_value()) {
    return ReportStatus(outcome.error());
  }
  const stress::SimCounts& counts = outcome->counts;
  StressReport report;
  report.kind = "power cuts";
  report.seed = arguments.seed;
  report.counts = {{"power cuts", counts.power_cuts},
                   {"operations", counts.operations},
                   {"acknowledged", counts.acknowledged},
                   {"blocks compared", counts.blocks_compared},
                   {"blocks found", counts.found}};
  report.violations = outcome->violations;
  report.faults = {{"cut within a change", counts.cuts_within_changes},
                   {"cut between changes",
                    counts.power_cuts - std::min(counts.power_cuts, counts.cuts_within_changes)},
                   {"kill", counts.crashes - std::min(counts.crashes, counts.power_cuts)}};
  if (outcome->first) {
    const std::uint64_t seed = outcome->first->seed;
    report.failure =
        StressFailure{seed,
                      {"power cuts", options.power_cuts},
                      outcome->first->text,
                      "kvferry stress --power-cuts " + std::to_string(options.power_cuts) +
                          " --seed " + std::to_string(seed)};
  }
  return PrintReport(arguments, report, counts.power_cuts >= kCutsForEveryKind);
}

int RunNthFault(const StressArguments& arguments) {
  stress::SimBatchOptions options;
  options.first_seed = 0;
  options.faults = stress::FaultLevel::kNone;
  options.jobs = arguments.jobs;
  options.repeated_percent = 0;
  options.script_seed = arguments.seed;
  stress::SimCounts script;
  const Result<std::uint32_t> length = LengthOfScript(options, script);
  if (!length.has_value()) {
    return ReportStatus(length.error());
  }
  options.operations = *length;
  options.nth_faults = EachFaultAtEach(script, arguments.every);
  options.seeds = options.nth_faults.size();
  const StressProgress progress(arguments, "runs", options.seeds);
  const auto show = [&](std::uint64_t done) {
    progress.Show(done);
  };
  const Result<stress::SimBatchOutcome> outcome = stress::RunSimSeeds(options, show);
  if (!outcome.has_value()) {
    return ReportStatus(outcome.error());
  }
  StressReport report;
  report.kind = "nth fault";
  report.seed = arguments.seed;
  report.counts = {{"runs", outcome->seeds},
                   {"drive operations", script.drive_operations},
                   {"batches", script.batches},
                   {"operations", outcome->counts.operations},
                   {"acknowledged", outcome->counts.acknowledged},
                   {"blocks compared", outcome->counts.blocks_compared},
                   {"times off", outcome->counts.times_off}};
  report.violations = outcome->violations;
  for (const sim::SimFault fault : sim::AllSimFaults()) {
    report.faults.emplace_back(sim::ToString(fault), outcome->faults.of(fault));
  }
  if (outcome->first) {
    report.failure =
        StressFailure{arguments.seed,
                      {"operations", outcome->first->operations},
                      outcome->first->text,
                      "kvferry stress --nth-fault --seed " + std::to_string(arguments.seed)};
  }
  return PrintReport(arguments, report, outcome->seeds >= kRunsForEveryFault);
}

}  // namespace kvferry::tool
