// The parent's side: which moment ends a process, and what follows from what it had told.
#include "stress/kill_rounds.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "stress/block_model.h"
#include "stress/kill_journal.h"
#include "stress/kill_worker.h"

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
constexpr std::size_t kErrorTextMax = 400;

// A journal that a child inherits and both see; empty each time.
class SharedJournal {
 public:
  SharedJournal()
      : memory_(::mmap(nullptr,
                       sizeof(KillJournal),
                       PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS,
                       -1,
                       0)) {
    if (memory_ != MAP_FAILED) {
      journal_ = ::new (memory_) KillJournal;
    }
  }
  SharedJournal(const SharedJournal&) = delete;
  SharedJournal& operator=(const SharedJournal&) = delete;
  ~SharedJournal() {
    if (memory_ != MAP_FAILED) {
      ::munmap(memory_, sizeof(KillJournal));
    }
  }
  KillJournal* get() const { return journal_; }

 private:
  void* memory_;
  KillJournal* journal_ = nullptr;
};

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

std::string ReadErrors(const FileDescriptor& errors) {
  std::string text(kErrorTextMax, '\0');
  const ssize_t got = ::pread(errors.fd(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text.empty() ? "not a word" : text;
}

class KillRounds {
 public:
  KillRounds(const KillOptions& options, FunctionRef<void(std::uint64_t)> on_progress)
      : options_(options),
        on_progress_(on_progress),
        random_(options.seed),
        model_(kKillNamespaces, kKillKeysPerNamespace) {
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
  Status Fork(const Plan& plan, KillJournal& journal, FileDescriptor& errors);
  // The status of the child as waitpid gives it; kills it when its time has come.
  int AwaitEnd(const Plan& plan, const KillJournal& journal);
  void Learn(const Plan& plan, int status, const KillJournal& journal, const std::string& errors);
  void Violates(const std::string& text);

  const KillOptions& options_;
  FunctionRef<void(std::uint64_t)> on_progress_;
  Random random_;
  BlockModel model_;
  std::vector<KillPoint> points_left_;  // Not met yet; the last one is tried next.
  std::uint64_t growths_ = 0;
  pid_t child_ = -1;
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

Status KillRounds::Fork(const Plan& plan, KillJournal& journal, FileDescriptor& errors) {
  errors = FileDescriptor(::memfd_create("kvferry-stress", MFD_CLOEXEC));
  if (!errors.is_open()) {
    return Status::Error(StatusCode::kIoError, "make a file for a process's errors", errno);
  }
  KillWorkerOptions worker;
  worker.folder = options_.folder;
  worker.seed = random_.Next();
  if (plan.point == KillPoint::kStoreExtended || random_.Chance(kGrowthChance)) {
    growths_ = std::min(growths_ + 1, kGrowthsMax);
  }
  worker.capacity_bytes = kCapacityBytes + growths_ * kMiB;
  worker.has_work = !plan.has_end;
  child_ = ::fork();
  if (child_ < 0) {
    return Status::Error(StatusCode::kIoError, "start a process to be killed", errno);
  }
  if (child_ > 0) {
    return Status::Ok();
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(errors.fd(), STDERR_FILENO);
  SetLogLevel(LogLevel::kError);
  if (plan.point) {
    Trap& trap = TrapOfProcess();
    trap.journal = &journal;
    trap.point = *plan.point;
    trap.passes_left = plan.pass;
    tiers::KillPointHookOfProcess() = DieAtThePoint;
  }
  KillWorker(worker, model_, journal).Run();
  // Whatever else there is to tidy belongs to the parent.
  ::_exit(0);
}

int KillRounds::AwaitEnd(const Plan& plan, const KillJournal& journal) {
  const Instant started = Clock::now();
  Instant working_since = Instant::max();
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(child_, &status, WNOHANG);
    if (ended == child_ || (ended < 0 && errno != EINTR)) {
      return status;
    }
    const Instant now = Clock::now();
    if (journal.phase == KillJournal::Phase::kWorking) {
      working_since = std::min(working_since, now);
    }
    const Instant since = plan.is_early ? started : working_since;
    const Duration after = plan.point ? kPassesWithin : plan.after;
    const bool is_due = !plan.has_end && since != Instant::max() && now - since >= after;
    const bool hangs = working_since == Instant::max() && now - started > kBeginsWithin;
    if (is_due || hangs) {
      ::kill(child_, hangs ? SIGABRT : SIGKILL);
      while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
      }
      return status;
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

void KillRounds::Learn(const Plan& plan,
                       int status,
                       const KillJournal& journal,
                       const std::string& errors) {
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
    Violates("a process ended by itself, " +
             (WIFSIGNALED(status) ? "with signal " + std::to_string(WTERMSIG(status))
                                  : "with exit code " + std::to_string(WEXITSTATUS(status))) +
             ", and said: " + errors);
  }
  journal.Replay(model_);
  model_.Crash();
}

Status KillRounds::RunOne(const Plan& plan) {
  const SharedJournal journal;
  if (journal.get() == nullptr) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory to share with a process");
  }
  FileDescriptor errors;
  KVFERRY_RETURN_IF_ERROR(Fork(plan, *journal.get(), errors));
  const int status = AwaitEnd(plan, *journal.get());
  Learn(plan, status, *journal.get(), ReadErrors(errors));
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
