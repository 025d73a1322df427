// The parent's side: which moment ends a process, and what follows from what it had told.
#include "stress/kill_rounds.h"

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/random.h"
#include "stress/block_model.h"
#include "stress/kill_journal.h"
#include "stress/kill_worker.h"
#include "stress/worker_process.h"

namespace kvferry::stress {
namespace {

using tiers::KillPoint;

constexpr std::uint64_t kCapacityBytes = 16 * kMiB;
constexpr double kGrowthChance = 0.02;
constexpr std::uint64_t kGrowthsMax = 32;
constexpr Duration kPause = std::chrono::microseconds(200);
// A process that has not begun to work by then hangs.
constexpr Duration kBeginsWithin = std::chrono::seconds(90);
// A kill point that was not passed by then will not be.
constexpr Duration kPassesWithin = std::chrono::seconds(2);
constexpr std::uint64_t kWorkUsMax = 150'000;

// When a process is to die.
struct Plan {
  bool has_end = false;  // Never: it verifies, and closes the store.
  std::optional<KillPoint> point;
  std::uint32_t pass = 1;  // Of the point.
  bool is_early = false;   // At any time, not only while it works.
  Duration after{};
};

// What the hook knows: it has no other way to be told.
struct Trap {
  KillJournal* journal = nullptr;
  KillPoint point{};
  std::atomic<std::uint32_t> passes_left = 0;
};

Trap& TrapOfProcess() {
  static Trap trap;
  return trap;
}

void DieAtThePoint(KillPoint point) {
  Trap& trap = TrapOfProcess();
  if (point == trap.point && trap.passes_left.fetch_sub(1) == 1) {
    trap.journal->killed_at = static_cast<std::int32_t>(point);
    ::raise(SIGKILL);
  }
}

class KillRounds {
 public:
  KillRounds(const KillOptions& options, FunctionRef<void(std::uint64_t)> on_progress)
      : options_(options), on_progress_(on_progress), random_(options.seed) {
    for (const KillPoint point : tiers::AllKillPoints()) {
      points_left_.push_back(point);
    }
  }

  Status Run() {
    while (outcome_.kills < options_.kills && outcome_.violations == 0) {
      KVFERRY_RETURN_IF_ERROR(RunOne(DrawPlan()));
      on_progress_(outcome_.kills);
    }
    if (outcome_.violations == 0) {
      Plan last;
      last.has_end = true;
      KVFERRY_RETURN_IF_ERROR(RunOne(last));
    }
    return Status::Ok();
  }

  KillOutcome& outcome() { return outcome_; }

 private:
  Plan DrawPlan();
  Status RunOne(const Plan& plan);
  KillWorkerOptions DrawWorker(const Plan& plan);
  // How the process has ended, as waitpid tells it; kills it when its time has come.
  static int AwaitEnd(const Plan& plan, WorkerProcess& process);
  void Learn(const Plan& plan, int status, const WorkerProcess& process);
  void Violates(const std::string& text);

  const KillOptions& options_;
  FunctionRef<void(std::uint64_t)> on_progress_;
  Random random_;
  std::vector<KillPoint> points_left_;  // Not met yet; the last one is tried next.
  std::uint64_t growths_ = 0;
  KillOutcome outcome_;
};

Plan KillRounds::DrawPlan() {
  Plan plan;
  plan.after = std::chrono::microseconds(random_.Below(kWorkUsMax));
  plan.is_early = random_.Chance(0.15);
  if (!points_left_.empty()) {
    // A point that is not met waits until the others were; the first ones need an empty folder.
    plan.point = points_left_.front();
    std::rotate(points_left_.begin(), points_left_.begin() + 1, points_left_.end());
    plan.pass = 1;
  } else if (random_.Chance(0.6)) {
    // A store is made once.
    plan.point = static_cast<KillPoint>(random_.Between(
        static_cast<std::uint64_t>(KillPoint::kStoreExtended), tiers::kKillPointCount - 1));
    plan.pass = static_cast<std::uint32_t>(random_.Between(1, 12));
  }
  return plan;
}

KillWorkerOptions KillRounds::DrawWorker(const Plan& plan) {
  KillWorkerOptions worker;
  worker.folder = options_.folder;
  worker.seed = random_.Next();
  if (plan.point == KillPoint::kStoreExtended || random_.Chance(kGrowthChance)) {
    growths_ = std::min(growths_ + 1, kGrowthsMax);
  }
  worker.capacity_bytes = kCapacityBytes + growths_ * kMiB;
  outcome_.capacity_bytes = worker.capacity_bytes;
  worker.has_work = !plan.has_end;
  return worker;
}

int KillRounds::AwaitEnd(const Plan& plan, WorkerProcess& process) {
  const Instant started = Clock::now();
  Instant working_since = Instant::max();
  while (true) {
    if (const std::optional<int> ended = process.EndedWith()) {
      return *ended;
    }
    const Instant now = Clock::now();
    if (process.journal().phase == KillJournal::Phase::kWorking) {
      working_since = std::min(working_since, now);
    }
    const Instant since = plan.is_early ? started : working_since;
    const Duration after = plan.point ? kPassesWithin : plan.after;
    const bool is_due = !plan.has_end && since != Instant::max() && now - since >= after;
    const bool hangs = working_since == Instant::max() && now - started > kBeginsWithin;
    if (is_due || hangs) {
      return process.EndBy(hangs ? SIGABRT : SIGKILL);
    }
    std::this_thread::sleep_for(kPause);
  }
}

void KillRounds::Violates(const std::string& text) {
  ++outcome_.violations;
  if (!outcome_.first) {
    outcome_.first = KillViolation{outcome_.kills, text};
  }
}

void KillRounds::Learn(const Plan& plan, int status, const WorkerProcess& process) {
  const KillJournal& journal = process.journal();
  outcome_.operations += journal.operations;
  outcome_.acknowledged += journal.acknowledged;
  outcome_.blocks_compared += journal.blocks_compared;
  outcome_.blocks_found += journal.blocks_found;
  outcome_.segments_reused += journal.segments_reused;
  if (journal.violations > 0) {
    outcome_.violations += journal.violations - 1;
    Violates(journal.violation());
  } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    ++outcome_.kills;
    if (journal.killed_at == KillJournal::kNowhere) {
      ++outcome_.at_random;
    } else {
      const auto point = static_cast<KillPoint>(journal.killed_at.load());
      ++outcome_.at_points.at(static_cast<std::size_t>(point));
      std::erase(points_left_, point);
    }
  } else if (!plan.has_end || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    Violates("a process ended by itself, " + DescribeEnd(status) +
             ", and said: " + process.Errors());
  }
  journal.Replay(outcome_.model);
  outcome_.model.Crash();
}

Status KillRounds::RunOne(const Plan& plan) {
  const auto prepare = [&plan](KillJournal& journal) {
    if (plan.point) {
      Trap& trap = TrapOfProcess();
      trap.journal = &journal;
      trap.point = *plan.point;
      trap.passes_left = plan.pass;
      tiers::KillPointHookOfProcess() = DieAtThePoint;
    }
  };
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerProcess> process,
                           WorkerProcess::Start(DrawWorker(plan), outcome_.model, prepare));
  Learn(plan, AwaitEnd(plan, *process), *process);
  return Status::Ok();
}

// Whatever else lay there could not be told from what was lost or came back.
Status CheckIsEmpty(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) {
    return Status::Ok();
  }
  if (!std::filesystem::is_empty(folder, error) || error) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "'" + folder + "' is not an empty folder: name one that is, or a new one");
  }
  return Status::Ok();
}

}  // namespace

Result<KillOutcome> RunKillRounds(const KillOptions& options,
                                  FunctionRef<void(std::uint64_t)> on_progress) {
  KVFERRY_RETURN_IF_ERROR(CheckIsEmpty(options.folder));
  KillRounds rounds(options, on_progress);
  KVFERRY_RETURN_IF_ERROR(rounds.Run());
  return std::move(rounds.outcome());
}

}  // namespace kvferry::stress
