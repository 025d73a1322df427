// The store is made by processes that are killed, so that its segments have had several lives.
#include "stress/damage_rounds.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "stress/block_model.h"
#include "stress/folder_image.h"
#include "stress/kill_rounds.h"
#include "stress/kill_worker.h"
#include "stress/worker_process.h"

namespace kvferry::stress {
namespace {

// Each kill point once, and some more: the older image is of the time between.
constexpr std::uint64_t kKillsBefore = 22;
constexpr std::uint64_t kKillsInAll = 30;
constexpr Duration kPause = std::chrono::microseconds(200);
// A process that looks at a damaged store for so long hangs.
constexpr Duration kEndsWithin = std::chrono::seconds(120);
// Places of chance that are tried before a kind of damage is passed over.
constexpr int kTriesMax = 100;
// At a sound store, until two find the same.
constexpr int kLooksMax = 6;

std::string NameOf(const DamagePlan& plan) {
  return std::string(ToString(plan.kind)) + " in " + std::string(ToString(plan.part));
}

class DamageRounds {
 public:
  DamageRounds(const DamageOptions& options, FunctionRef<void(std::uint64_t)> on_progress)
      : options_(options),
        on_progress_(on_progress),
        random_(options.seed),
        plans_(AllDamagePlans()) {
    for (const DamagePlan& plan : plans_) {
      outcome_.by_damage.emplace_back(NameOf(plan), 0);
    }
  }

  Status Run() {
    KVFERRY_RETURN_IF_ERROR(MakeStore());
    while (outcome_.rounds < options_.rounds && outcome_.violations == 0) {
      KVFERRY_RETURN_IF_ERROR(RunOne());
      on_progress_(outcome_.rounds);
    }
    return outcome_.violations > 0 ? Status::Ok() : WriteFolderImage(sound_, options_.folder);
  }

  DamageOutcome& outcome() { return outcome_; }

 private:
  Status MakeStore();
  Status RunOne();
  // A damaged copy of the store; in turn each kind of damage.
  std::optional<Damage> DamageCopy(FolderImage& image);
  // What an engine makes of the files in the folder.
  Result<std::unique_ptr<WorkerProcess>> LookAt(KillWorkerOptions worker);
  // Likewise, of files that must be sound; with all keys put anew where it `fills`.
  Status LookAtSound(bool fills);
  Status Judge(const Damage& damage);
  static int AwaitEnd(WorkerProcess& process);
  void Violates(const Damage& damage, const std::string& text);

  const DamageOptions& options_;
  FunctionRef<void(std::uint64_t)> on_progress_;
  Random random_;
  std::vector<DamagePlan> plans_;
  std::size_t next_plan_ = 0;
  BlockModel model_{kKillNamespaces, kKillKeysPerNamespace};
  std::array<bool, kKillKeys> found_{};  // By key: what a sound store has.
  FolderImage sound_;
  FolderImage older_;
  std::vector<PartRange> map_;
  std::uint64_t capacity_bytes_ = 0;
  DamageOutcome outcome_;
};

Status DamageRounds::MakeStore() {
  Status older;
  const auto keep_older = [&](std::uint64_t kills) {
    if (kills == kKillsBefore) {
      Result<FolderImage> image = ReadFolderImage(options_.folder);
      older = image.status();
      older_ = image.ok() ? *std::move(image) : FolderImage();
    }
  };
  KVFERRY_ASSIGN_OR_RETURN(
      const KillOutcome made,
      RunKillRounds({options_.folder, options_.seed, kKillsInAll}, keep_older));
  KVFERRY_RETURN_IF_ERROR(older);
  if (made.violations > 0) {
    return Status::Error(StatusCode::kInternal,
                         "the store is wrong before it is damaged: " + made.first->text);
  }
  model_ = made.model;
  capacity_bytes_ = made.capacity_bytes;
  KVFERRY_RETURN_IF_ERROR(LookAtSound(true));
  KVFERRY_RETURN_IF_ERROR(LookAtSound(false));
  // A look may end while a segment is being emptied, of which the next one finds less.
  std::array<bool, kKillKeys> before{};
  for (int looks = 0; looks < kLooksMax && before != found_; ++looks) {
    before = found_;
    KVFERRY_RETURN_IF_ERROR(LookAtSound(false));
  }
  KVFERRY_ASSIGN_OR_RETURN(sound_, ReadFolderImage(options_.folder));
  KVFERRY_ASSIGN_OR_RETURN(map_, MapStore(options_.folder, sound_));
  return Status::Ok();
}

std::optional<Damage> DamageRounds::DamageCopy(FolderImage& image) {
  for (std::size_t turn = 0; turn < plans_.size(); ++turn) {
    const std::size_t index = next_plan_;
    next_plan_ = (next_plan_ + 1) % plans_.size();
    for (int tries = 0; tries < kTriesMax; ++tries) {
      std::optional<Damage> damage = Inflict(plans_[index], map_, older_, random_, image);
      if (damage) {
        ++outcome_.by_damage[index].second;
        return damage;
      }
    }
  }
  return std::nullopt;
}

Status DamageRounds::RunOne() {
  FolderImage image = sound_;
  const std::optional<Damage> damage = DamageCopy(image);
  if (!damage) {
    return Status::Error(StatusCode::kInternal, "the store has nothing that can be damaged");
  }
  KVFERRY_RETURN_IF_ERROR(WriteFolderImage(image, options_.folder));
  KVFERRY_RETURN_IF_ERROR(Judge(*damage));
  ++outcome_.rounds;
  // The process has changed it since: what is wrong is to be seen as it was.
  return outcome_.violations > 0 ? WriteFolderImage(image, options_.folder) : Status::Ok();
}

int DamageRounds::AwaitEnd(WorkerProcess& process) {
  const Instant give_up_at = Clock::now() + kEndsWithin;
  while (true) {
    if (const std::optional<int> ended = process.EndedWith()) {
      return *ended;
    }
    if (Clock::now() > give_up_at) {
      return process.EndBy(SIGABRT);
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<std::unique_ptr<WorkerProcess>> DamageRounds::LookAt(KillWorkerOptions worker) {
  worker.folder = options_.folder;
  worker.seed = random_.Next();
  worker.capacity_bytes = capacity_bytes_;
  worker.has_work = false;
  KVFERRY_ASSIGN_OR_RETURN(std::unique_ptr<WorkerProcess> process,
                           WorkerProcess::Start(worker, model_, [](KillJournal&) {}));
  AwaitEnd(*process);
  return process;
}

Status DamageRounds::LookAtSound(bool fills) {
  KillWorkerOptions worker;
  worker.fills = fills;
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerProcess> process, LookAt(worker));
  const KillJournal& journal = process->journal();
  if (journal.violations > 0 || *process->EndedWith() != 0) {
    return Status::Error(StatusCode::kInternal, "the store is wrong before it is damaged: " +
                                                    journal.violation() + process->Errors());
  }
  std::copy(journal.is_found.begin(), journal.is_found.end(), found_.begin());
  journal.Replay(model_);
  model_.Crash();
  return Status::Ok();
}

Status DamageRounds::Judge(const Damage& damage) {
  KillWorkerOptions worker;
  worker.is_damaged = true;
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerProcess> process, LookAt(worker));
  const KillJournal& journal = process->journal();
  const int status = *process->EndedWith();
  std::size_t lost = 0;
  for (std::size_t key = 0; key < found_.size(); ++key) {
    lost += found_[key] && !journal.is_found[key] ? 1U : 0U;
  }
  outcome_.operations += journal.operations;
  outcome_.blocks_compared += journal.blocks_compared;
  outcome_.blocks_lost += lost;
  outcome_.refused += journal.is_refused ? 1U : 0U;
  if (journal.violations > 0) {
    Violates(damage, journal.violation());
  } else if (status != 0) {
    Violates(damage,
             "the process ended " + DescribeEnd(status) + ", and said: " + process->Errors());
  } else if (!damage.all_may_go && journal.is_refused) {
    Violates(damage, "the store was refused");
  } else if (!damage.all_may_go && lost > damage.payloads_hit) {
    Violates(damage, std::to_string(lost) + " blocks were lost by it");
  }
  return Status::Ok();
}

void DamageRounds::Violates(const Damage& damage, const std::string& text) {
  ++outcome_.violations;
  outcome_.first = DamageViolation{outcome_.rounds, damage.text + ": " + text};
}

}  // namespace

Result<DamageOutcome> RunDamageRounds(const DamageOptions& options,
                                      FunctionRef<void(std::uint64_t)> on_progress) {
  DamageRounds rounds(options, on_progress);
  KVFERRY_RETURN_IF_ERROR(rounds.Run());
  return std::move(rounds.outcome());
}

}  // namespace kvferry::stress
