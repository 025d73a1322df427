// `kvferry stress`: the engine against faults, from a seed.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "commands.h"
#include "exit_code.h"
#include "number_checks.h"
#include "progress_bar.h"
#include "stress/sim_batch.h"

#include <nlohmann/json.hpp>

namespace kvferry::tool {
namespace {

// From here on, every kind of fault must have happened: a run that injects none of a kind has not
// tested it.
constexpr std::uint64_t kOperationsForEveryFault = 100'000;

stress::FaultLevel LevelOf(const std::string& name) {
  return name == "none"   ? stress::FaultLevel::kNone
         : name == "rare" ? stress::FaultLevel::kRare
                          : stress::FaultLevel::kHostile;
}

bool CanHappen(sim::SimFault fault) {
  return sim::Befalls(fault, sim::SimTarget::kRead) || sim::Befalls(fault, sim::SimTarget::kWrite);
}

std::string NeverInjected(const stress::SimBatchOutcome& outcome) {
  std::string names;
  for (const sim::SimFault fault : sim::AllSimFaults()) {
    if (CanHappen(fault) && outcome.faults.of(fault) == 0) {
      names.append(names.empty() ? "" : ", ").append(sim::ToString(fault));
    }
  }
  return names;
}

std::string ReplayCommand(const StressArguments& arguments, const stress::SimViolation& violation) {
  return "kvferry stress --sim --seeds 1 --seed " + std::to_string(violation.seed) + " --ops " +
         std::to_string(violation.operations) + " --faults " + arguments.level;
}

template <class Visit>
void ForEachCount(const stress::SimCounts& counts, Visit&& visit) {
  visit("operations", counts.operations);
  visit("steps", counts.steps);
  visit("blocks compared", counts.blocks_compared);
  visit("hits nvme", counts.hits_nvme);
  visit("offloads", counts.offloads);
  visit("evictions", counts.evictions);
  visit("coalesced reads", counts.coalesced_reads);
  visit("failed checks", counts.failed_checks);
  visit("cancelled", counts.cancelled);
  visit("deadlines missed", counts.deadlines_missed);
  visit("other namespace", counts.other_namespace);
}

std::string ToJson(const StressArguments& arguments, const stress::SimBatchOutcome& outcome) {
  nlohmann::ordered_json json;
  json["stress"] = "sim";
  json["seed"] = arguments.seed;
  json["seeds"] = outcome.seeds;
  ForEachCount(outcome.counts, [&json](std::string name, std::uint64_t value) {
    std::replace(name.begin(), name.end(), ' ', '_');
    json[name] = value;
  });
  json["violations"] = outcome.violations;
  json["faults"] = nlohmann::ordered_json::object();
  for (const sim::SimFault fault : sim::AllSimFaults()) {
    if (CanHappen(fault)) {
      json["faults"][std::string(sim::ToString(fault))] = outcome.faults.of(fault);
    }
  }
  json["failing_seed"] = nullptr;
  if (outcome.first) {
    json["failing_seed"] = outcome.first->seed;
    json["failing_operations"] = outcome.first->operations;
    json["failure"] = outcome.first->text;
    json["replay"] = ReplayCommand(arguments, *outcome.first);
  }
  return json.dump(2) + "\n";
}

std::string ToText(const StressArguments& arguments, const stress::SimBatchOutcome& outcome) {
  std::string text;
  const auto line = [&text](std::string name, std::uint64_t value) {
    name.resize(std::max<std::size_t>(name.size() + 1, 24), ' ');
    text.append(name).append(std::to_string(value)).append(1, '\n');
  };
  line("seeds", outcome.seeds);
  ForEachCount(outcome.counts, line);
  text += "faults injected\n";
  for (const sim::SimFault fault : sim::AllSimFaults()) {
    if (CanHappen(fault)) {
      line("  " + std::string(sim::ToString(fault)), outcome.faults.of(fault));
    }
  }
  line("violations", outcome.violations);
  if (outcome.first) {
    text += "\nseed " + std::to_string(outcome.first->seed) + " fails within " +
            std::to_string(outcome.first->operations) + " operations:\n  " + outcome.first->text +
            "run it again: " + ReplayCommand(arguments, *outcome.first) + "\n";
  }
  return text;
}

int RunSim(const StressArguments& arguments) {
  stress::SimBatchOptions options;
  options.first_seed = arguments.seed;
  options.seeds = arguments.seeds;
  options.operations = arguments.operations;
  options.faults = LevelOf(arguments.level);
  options.jobs = arguments.jobs;
  const bool is_shown = !arguments.is_quiet && IsProgressTerminal();
  const auto started = Clock::now();
  const auto show = [&](std::uint64_t done) {
    if (is_shown) {
      const double elapsed = std::chrono::duration<double>(Clock::now() - started).count();
      const std::string bar =
          ProgressLine({"running", "seeds", arguments.seeds, true}, done, elapsed);
      std::fprintf(stderr, "\r\033[K%s", bar.c_str());
    }
  };
  const Result<stress::SimBatchOutcome> outcome = stress::RunSimSeeds(options, show);
  if (is_shown) {
    std::fputs("\r\033[K", stderr);
  }
  if (!outcome.has_value()) {
    return ReportStatus(outcome.error());
  }
  const int printed =
      PrintOutput(arguments.is_json ? ToJson(arguments, *outcome) : ToText(arguments, *outcome));
  if (printed != kExitOk || outcome->violations > 0) {
    return kExitFailure;
  }
  const std::string missing = NeverInjected(*outcome);
  if (arguments.level != "none" && !missing.empty() &&
      outcome->counts.operations >= kOperationsForEveryFault) {
    std::fprintf(stderr, "kvferry: never injected: %s; run more seeds\n", missing.c_str());
    return kExitFailure;
  }
  return kExitOk;
}

int RunStress(const StressArguments& arguments) {
  if (!arguments.is_sim) {
    return ReportStatus(Status::Error(StatusCode::kInvalidArgument,
                                      "stress needs --sim: the engine over simulated devices"));
  }
  if (arguments.seed > UINT64_MAX - arguments.seeds) {
    return ReportStatus(Status::Error(StatusCode::kInvalidArgument,
                                      "--seed and --seeds together pass the last seed, 2^64 - 1"));
  }
  return RunSim(arguments);
}

}  // namespace

void AddStressCommand(CLI::App& app, StressArguments& arguments, int& exit_code) {
  CLI::App* stress = app.add_subcommand(
      "stress", "Run the engine against faults and check every byte that comes back");
  stress->add_flag("--sim", arguments.is_sim,
                   "Over simulated memory, drive and clock: callers put, get, prefetch, pin, erase "
                   "and cancel at random; after every step all invariants are checked");
  stress->add_option("--seeds", arguments.seeds, "Runs, each from a seed of its own")
      ->type_name("N")
      ->check(WholeNumber(1, 1'000'000'000))
      ->capture_default_str();
  stress->add_option("--seed", arguments.seed, "The first seed; a seed's run is always the same")
      ->type_name("S")
      ->check(WholeNumber(0, UINT64_MAX))
      ->capture_default_str();
  stress->add_option("--ops", arguments.operations, "Operations of each run")
      ->type_name("M")
      ->check(WholeNumber(1, 10'000'000))
      ->capture_default_str();
  stress
      ->add_option("--faults", arguments.level,
                   "How often an operation of the drive goes wrong: hostile (1 in 32), rare "
                   "(1 in 1,000), none")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"hostile", "rare", "none"}))
      ->capture_default_str();
  stress->add_option("--jobs", arguments.jobs, "Processes at a time")
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
