// `kvferry stress`: the engine against faults, from a seed.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "commands.h"
#include "exit_code.h"
#include "number_checks.h"
#include "progress_bar.h"
#include "stress/kill_rounds.h"
#include "stress/sim_batch.h"
#include "stress_report.h"
#include "tiers/nvme/kill_points.h"

namespace kvferry::tool {
namespace {

// From here on, every kind of fault must have happened: a run that injects none of a kind has not
// tested it.
constexpr std::uint64_t kOperationsForEveryFault = 100'000;

// Likewise for kill points; a point that is hard to meet is tried again.
constexpr std::uint64_t kKillsForEveryPoint = 60;

// And for the two moments of a power cut.
constexpr std::uint64_t kCutsForEveryKind = 200;
// Power cuts of one seed.
constexpr std::uint64_t kCutsPerSeed = 25;
constexpr std::uint64_t kDriveOperationsOfScript = 300;
constexpr std::uint64_t kRunsForEveryFault = 500;

Status Invalid(const char* what) {
  return Status::Error(StatusCode::kInvalidArgument, what);
}

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

// The progress line, painted by the work itself: processes are forked beside it, so that there may
// be no thread.
class StressProgress {
 public:
  StressProgress(const StressArguments& arguments, std::string unit, std::uint64_t total)
      : is_shown_(!arguments.is_quiet && IsProgressTerminal()),
        options_({"running", std::move(unit), total, true}) {}
  StressProgress(const StressProgress&) = delete;
  StressProgress& operator=(const StressProgress&) = delete;
  ~StressProgress() {
    if (is_shown_) {
      std::fputs("\r\033[K", stderr);
    }
  }

  void Show(std::uint64_t done) const {
    if (is_shown_) {
      const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
      std::fprintf(stderr, "\r\033[K%s", ProgressLine(options_, done, elapsed).c_str());
    }
  }

 private:
  bool is_shown_;
  ProgressOptions options_;
  Instant started_ = Clock::now();
};

// `has_volume`: it was enough for every kind of fault to have happened.
int PrintReport(const StressArguments& arguments, const StressReport& report, bool has_volume) {
  const int printed = PrintOutput(arguments.is_json ? ToJson(report) : ToText(report));
  if (printed != kExitOk || report.violations > 0) {
    return kExitFailure;
  }
  const std::string missing = NeverInjected(report);
  if (has_volume && !missing.empty()) {
    std::fprintf(stderr, "kvferry: never injected: %s; run more\n", missing.c_str());
    return kExitFailure;
  }
  return kExitOk;
}

int RunSim(const StressArguments& arguments) {
  if (arguments.seed > UINT64_MAX - arguments.seeds) {
    return ReportStatus(Invalid("--seed and --seeds together pass the last seed, 2^64 - 1"));
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

int RunKills(const StressArguments& arguments) {
  if (arguments.folder.empty()) {
    return ReportStatus(Invalid("--kills needs --dir: an empty folder for the store"));
  }
  const StressProgress progress(arguments, "kills", arguments.kills);
  const auto show = [&](std::uint64_t done) {
    progress.Show(done);
  };
  const Result<stress::KillOutcome> outcome =
      stress::RunKillRounds({arguments.folder, arguments.seed, arguments.kills}, show);
  if (!outcome.has_value()) {
    return ReportStatus(outcome.error());
  }
  StressReport report;
  report.kind = "kills";
  report.seed = arguments.seed;
  report.counts = {{"kills", outcome->kills},
                   {"operations", outcome->operations},
                   {"acknowledged", outcome->acknowledged},
                   {"blocks compared", outcome->blocks_compared},
                   {"blocks found", outcome->blocks_found},
                   {"segments reused", outcome->segments_reused}};
  report.violations = outcome->violations;
  report.faults_title = "kills at";
  for (const tiers::KillPoint point : tiers::AllKillPoints()) {
    report.faults.emplace_back(tiers::ToString(point),
                               outcome->at_points.at(static_cast<std::size_t>(point)));
  }
  report.faults.emplace_back("random moment", outcome->at_random);
  if (outcome->first) {
    report.failure = StressFailure{arguments.seed,
                                   {"kills", outcome->first->kill},
                                   outcome->first->text,
                                   "kvferry stress --kills " + std::to_string(arguments.kills) +
                                       " --dir ANOTHER --seed " + std::to_string(arguments.seed)};
  }
  return PrintReport(arguments, report, outcome->kills >= kKillsForEveryPoint);
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
    for (const sim::SimFault fault : sim::AllSimFaults()) {
      if (is_batch != sim::Befalls(fault, sim::SimTarget::kBatch)) {
        continue;
      }
      for (const bool is_lasting : {false, true}) {
        if (index++ % every == 0) {
          faults.emplace_back(stress::NthFault{number, is_batch, fault, is_lasting});
        }
      }
    }
  }
  return faults;
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

int RunStress(const StressArguments& arguments) {
  const int modes = (arguments.is_sim ? 1 : 0) + (arguments.kills > 0 ? 1 : 0) +
                    (arguments.power_cuts > 0 ? 1 : 0) + (arguments.is_nth_fault ? 1 : 0);
  if (modes != 1) {
    return ReportStatus(Invalid(
        "stress needs one of --sim (the engine over simulated devices), --kills (an engine on "
        "real files, whose process is killed), --power-cuts (the real manifest over simulated "
        "devices, whose power goes) and --nth-fault (each operation of a script fails in turn)"));
  }
  if (arguments.is_sim) {
    return RunSim(arguments);
  }
  if (arguments.is_nth_fault) {
    return RunNthFault(arguments);
  }
  return arguments.kills > 0 ? RunKills(arguments) : RunPowerCuts(arguments);
}

}  // namespace

void AddStressCommand(CLI::App& app, StressArguments& arguments, int& exit_code) {
  CLI::App* stress = app.add_subcommand(
      "stress", "Run the engine against faults and check every byte that comes back");
  stress->add_flag("--sim", arguments.is_sim,
                   "Over simulated memory, drive and clock: callers put, get, prefetch, pin, erase "
                   "and cancel at random; after every step all invariants are checked");
  stress
      ->add_option("--kills", arguments.kills,
                   "On real files in --dir: N processes work at random and are killed, at kill "
                   "points and at random; each looks first for what was acknowledged before")
      ->type_name("N")
      ->check(WholeNumber(1, 10'000'000));
  stress
      ->add_option("--dir", arguments.folder,
                   "The folder of the store of --kills: empty, or a new one; it stays")
      ->type_name("DIR");
  stress
      ->add_option("--power-cuts", arguments.power_cuts,
                   "Over simulated drives and the real manifest, its files in memory: N times the "
                   "power goes, also between two of these files' changes; what was not synced is "
                   "torn, and what was acknowledged must be there")
      ->type_name("N")
      ->check(WholeNumber(1, 100'000'000));
  stress->add_flag("--nth-fault", arguments.is_nth_fault,
                   "As --sim, one short run again and again: each operation of the drive and each "
                   "batch of the manifest meets each fault, once and from then on");
  stress->add_option("--every", arguments.every, "Of the runs of --nth-fault each K-th only")
      ->type_name("K")
      ->check(WholeNumber(1, 1'000'000))
      ->capture_default_str();
  stress->add_option("--seeds", arguments.seeds, "Runs of --sim, each from a seed of its own")
      ->type_name("N")
      ->check(WholeNumber(1, 1'000'000'000))
      ->capture_default_str();
  stress
      ->add_option(
          "--seed", arguments.seed,
          "The first seed; a seed's run is always the same, but for the moments of --kills")
      ->type_name("S")
      ->check(WholeNumber(0, UINT64_MAX))
      ->capture_default_str();
  stress->add_option("--ops", arguments.operations, "Operations of each run of --sim")
      ->type_name("M")
      ->check(WholeNumber(1, 10'000'000))
      ->capture_default_str();
  stress
      ->add_option("--faults", arguments.level,
                   "How often an operation of --sim's drive goes wrong: hostile (1 in 32), rare "
                   "(1 in 1,000), none")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"hostile", "rare", "none"}))
      ->capture_default_str();
  stress->add_option("--jobs", arguments.jobs, "Processes at a time, but for --kills")
      ->type_name("N")
      ->check(WholeNumber(1, 1'024))
      ->default_str("one for each core");
  stress->add_flag("--json", arguments.is_json, "Print one JSON object");
  stress->add_flag("-q,--quiet", arguments.is_quiet, "No progress on stderr");
  stress->footer(
      "Prints seeds, operations and faults injected by kind. Exit code 1 when something was wrong: "
      "a\nviolation (with the seed, and the command that shows it again with fewer operations "
      "where "
      "that\nworks), or, from 100,000 operations on, a kind of fault that never happened. "
      "docs/testing.md has more.");
  stress->callback([&arguments, &exit_code] { exit_code = RunStress(arguments); });
}

}  // namespace kvferry::tool
