// Runs over real files: processes that are killed, and stores that are damaged.
#include <cstdint>
#include <string>

#include "exit_code.h"
#include "stress/damage_rounds.h"
#include "stress/kill_rounds.h"
#include "stress_runs.h"
#include "tiers/nvme/kill_points.h"

namespace kvferry::tool {
namespace {

// From here on, every kill point must have been met; one that is hard to meet is tried again.
constexpr std::uint64_t kKillsForEveryPoint = 60;
// And every kind of damage have been done.
constexpr std::uint64_t kRoundsForEveryDamage = 60;

Status NeedsFolder(const char* mode) {
  return Status::Error(StatusCode::kInvalidArgument,
                       std::string(mode) + " needs --dir: an empty folder for the store");
}

}  // namespace

int RunKills(const StressArguments& arguments) {
  if (arguments.folder.empty()) {
    return ReportStatus(NeedsFolder("--kills"));
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

int RunDamage(const StressArguments& arguments) {
  if (arguments.folder.empty()) {
    return ReportStatus(NeedsFolder("--damage"));
  }
  const StressProgress progress(arguments, "damaged stores", arguments.damage);
  const auto show = [&](std::uint64_t done) {
    progress.Show(done);
  };
  const Result<stress::DamageOutcome> outcome =
      stress::RunDamageRounds({arguments.folder, arguments.seed, arguments.damage}, show);
  if (!outcome.has_value()) {
    return ReportStatus(outcome.error());
  }
  StressReport report;
  report.kind = "damage";
  report.seed = arguments.seed;
  report.counts = {{"damaged stores", outcome->rounds},
                   {"operations", outcome->operations},
                   {"blocks compared", outcome->blocks_compared},
                   {"blocks lost", outcome->blocks_lost},
                   {"stores refused", outcome->refused}};
  report.violations = outcome->violations;
  report.faults_title = "damage done";
  report.faults = outcome->by_damage;
  if (outcome->first) {
    report.failure =
        StressFailure{arguments.seed,
                      {"damaged stores", outcome->first->round},
                      outcome->first->text,
                      "kvferry fsck " + arguments.folder +
                          " (the damaged store; another run of this seed has another)"};
  }
  return PrintReport(arguments, report, outcome->rounds >= kRoundsForEveryDamage);
}

}  // namespace kvferry::tool
