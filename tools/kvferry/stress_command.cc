// `kvferry stress`: the engine against faults, from a seed.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "exit_code.h"
#include "number_checks.h"
#include "stress_runs.h"

namespace kvferry::tool {
namespace {

// One that is said and not heard would be taken for tested.
Status CheckOptionsOf(std::string_view run, const CLI::App& stress) {
  struct OptionOfRuns {
    const char* name;
    std::vector<std::string_view> runs;
  };
  const std::array<OptionOfRuns, 6> options = {{
      {"--dir", {"--kills", "--damage"}},
      {"--every", {"--nth-fault"}},
      {"--seeds", {"--sim"}},
      {"--ops", {"--sim"}},
      {"--faults", {"--sim"}},
      {"--jobs", {"--sim", "--power-cuts", "--nth-fault"}},
  }};
  for (const OptionOfRuns& option : options) {
    if (stress.count(option.name) == 0 ||
        std::find(option.runs.begin(), option.runs.end(), run) != option.runs.end()) {
      continue;
    }
    std::string takers;
    for (const std::string_view taker : option.runs) {
      takers.append(takers.empty() ? "" : " and ").append(taker);
    }
    return Status::Error(StatusCode::kInvalidArgument, std::string(run) + " takes no " +
                                                           option.name + ", which is for " +
                                                           takers + "; leave one of them out");
  }
  return Status::Ok();
}

int RunStress(const StressArguments& arguments, const CLI::App& stress) {
  std::vector<std::string_view> runs;
  const auto add = [&](bool is_asked_for, std::string_view run) {
    if (is_asked_for) {
      runs.push_back(run);
    }
  };
  add(arguments.is_sim, "--sim");
  add(arguments.kills > 0, "--kills");
  add(arguments.damage > 0, "--damage");
  add(arguments.power_cuts > 0, "--power-cuts");
  add(arguments.is_nth_fault, "--nth-fault");
  if (runs.size() != 1) {
    return ReportStatus(Status::Error(
        StatusCode::kInvalidArgument,
        "stress needs one of --sim (the engine over simulated devices), --kills (an engine on "
        "real files, whose process is killed), --damage (a store on real files that is damaged), "
        "--power-cuts (the real manifest over simulated "
        "devices, whose power goes) and --nth-fault (each operation of a script fails in turn)"));
  }
  if (const Status taken = CheckOptionsOf(runs.front(), stress); !taken.ok()) {
    return ReportStatus(taken);
  }
  if (arguments.is_sim) {
    return RunSim(arguments);
  }
  if (arguments.damage > 0) {
    return RunDamage(arguments);
  }
  if (arguments.is_nth_fault) {
    return RunNthFault(arguments);
  }
  return arguments.kills > 0 ? RunKills(arguments) : RunPowerCuts(arguments);
}

void AddRunsOnFiles(CLI::App& stress, StressArguments& arguments) {
  stress
      .add_option("--kills", arguments.kills,
                  "On real files in --dir: N processes work at random and are killed, at kill "
                  "points and at random; each looks first for what was acknowledged before")
      ->type_name("N")
      ->check(WholeNumber(1, 10'000'000));
  stress
      .add_option(
          "--damage", arguments.damage,
          "On real files in --dir: a store is damaged in N ways, one after the other: bits, "
          "sectors, blocks swapped, misplaced or of before, files cut short; no engine that "
          "opens it may serve a wrong byte")
      ->type_name("N")
      ->check(WholeNumber(1, 10'000'000));
  stress
      .add_option("--dir", arguments.folder,
                  "The folder of the store of --kills and --damage: empty, or a new one; it stays")
      ->type_name("DIR");
}

}  // namespace

void AddStressCommand(CLI::App& app, StressArguments& arguments, int& exit_code) {
  CLI::App* stress = app.add_subcommand(
      "stress", "Run the engine against faults and check every byte that comes back");
  stress->add_flag("--sim", arguments.is_sim,
                   "Over simulated memory, drive and clock: callers put, get, prefetch, pin, erase "
                   "and cancel at random; after every step all invariants are checked");
  AddRunsOnFiles(*stress, arguments);
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
      ->add_option("--seed", arguments.seed,
                   "The first seed; a seed's run is always the same, but for the moments of "
                   "--kills, which --damage begins with")
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
  stress->add_option("--jobs", arguments.jobs, "Processes at a time, but for --kills and --damage")
      ->type_name("N")
      ->check(WholeNumber(1, 1'024))
      ->default_str("one for each core");
  stress->add_flag("--json", arguments.is_json, "Print one JSON object");
  stress->add_flag("-q,--quiet", arguments.is_quiet, "No progress on stderr");
  stress->footer(
      "Prints seeds, operations and faults injected by kind. Exit code 1 when something was wrong: "
      "a\nviolation (with the seed, and the command that shows it again with fewer operations "
      "where "
      "that\nworks), or, from 100,000 operations on, a kind of fault that never happened\n"
      "(with --faults rare 1,000,000 operations have all). "
      "docs/testing.md has more.");
  stress->callback([&arguments, &exit_code, stress] { exit_code = RunStress(arguments, *stress); });
}

}  // namespace kvferry::tool
