// Random options, the look at everything that must be there, and random requests.
#include "stress/kill_worker.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "stress/stress_namespace.h"

namespace kvferry::stress {
namespace {

// With and without whole pages, in different size classes.
constexpr std::array<std::uint32_t, kKillNamespaces> kBlockBytes{4'096, 26'000, 65'536};
constexpr std::uint64_t kUsualBlockBytes = 16 * kKiB;
constexpr std::uint32_t kBlocksPerRequestMax = 12;
static_assert(kKillKeysPerNamespace % kBlocksPerRequestMax == 0);
constexpr std::size_t kRequestsAtOnce = 12;
constexpr Duration kPatience = std::chrono::seconds(30);
// A tier that opens is on by then.
constexpr Duration kOnWithin = std::chrono::milliseconds(500);
constexpr std::array<std::string_view, 6> kPolicies{"leaf-lru", "arc",   "s3-fifo",
                                                    "lirs",     "sieve", "fifo"};

}  // namespace

KillWorker::KillWorker(const KillWorkerOptions& options, BlockModel& model, KillJournal& journal)
    : options_(options),
      random_(options.seed),
      model_(model),
      journal_(journal),
      pending_(kRequestsAtOnce) {}

EngineOptions KillWorker::DrawOptions() {
  EngineOptions drawn;
  drawn.host.bytes = random_.Between(2, 8) * kMiB;
  drawn.host.huge_pages = HugePages::kNone;
  drawn.host.is_populated = false;
  drawn.host.verify_on_get = random_.Chance(0.3);
  drawn.host.policy = kPolicies[random_.Below(kPolicies.size())];
  drawn.nvme.paths = {options_.folder};
  drawn.nvme.capacity_bytes = options_.capacity_bytes;
  drawn.nvme.segment_bytes = random_.Chance(0.5) ? kMiB : 0;
  drawn.nvme.commit_bytes = random_.Between(1, 256) * 16 * kKiB;
  drawn.nvme.commit_ms = static_cast<std::uint32_t>(random_.Between(1, 40));
  drawn.nvme.in_flight_max = static_cast<std::uint32_t>(random_.Between(2, 64));
  drawn.nvme.is_required = !options_.is_damaged || random_.Chance(0.5);
  drawn.nvme.io = random_.Chance(0.5) ? NvmeIo::kAuto : NvmeIo::kThreads;
  drawn.history.blocks_max = static_cast<std::uint32_t>(random_.Between(0, 256));
  drawn.block_bytes = kUsualBlockBytes;
  drawn.transfers_max = static_cast<std::uint32_t>(random_.Between(2, 32));
  drawn.copy_threads = static_cast<std::uint32_t>(random_.Between(1, 2));
  drawn.close_deadline_ms = 20'000;
  drawn.seed = random_.Next();
  return drawn;
}

void KillWorker::Run() {
  if (Open() && AwaitScan() && Verify()) {
    if (options_.has_work) {
      Work();
    } else if (options_.is_damaged) {
      WorkALittle();
    } else if (options_.fills) {
      Fill();
    }
    Close();
  }
}

bool KillWorker::Violates(const std::string& what) {
  journal_.NoteViolation(what);
  return false;
}

void KillWorker::Note(const KillStep& step) {
  // A journal that is full ends the work, so there is always room for what is under way.
  journal_.Append(step);
  Apply(step, model_);
}

bool KillWorker::Open() {
  Result<std::unique_ptr<Engine>> opened = Engine::Open(DrawOptions());
  if (!opened.ok() && options_.is_damaged) {
    journal_.is_refused = true;
    return false;
  }
  if (!opened.ok()) {
    return Violates("the engine does not open: " + opened.status().ToString());
  }
  engine_ = *std::move(opened);
  Result<std::unique_ptr<CompletionQueue>> queue = engine_->CreateCompletionQueue(64);
  if (!queue.ok()) {
    return Violates("no completion queue: " + queue.status().ToString());
  }
  queue_ = *std::move(queue);
  for (std::uint32_t space = 0; space < kKillNamespaces; ++space) {
    const auto added = engine_->AddNamespace(DescriptionOf(space),
                                             {.block_bytes = kBlockBytes[space], .tenant = space});
    if (!added.ok()) {
      return Violates("a namespace is refused: " + added.status().ToString());
    }
    handles_.push_back(*added);
  }
  return true;
}

bool KillWorker::AwaitScan() {
  journal_.phase = KillJournal::Phase::kVerifying;
  const Instant give_up_at = Clock::now() + kPatience;
  while (!engine_->Stats().nvme_store.is_scanned) {
    if (options_.is_damaged && !engine_->Stats().nvme_store.is_on &&
        Clock::now() > give_up_at - kPatience + kOnWithin) {
      journal_.is_refused = true;
      return true;
    }
    if (Clock::now() > give_up_at) {
      return Violates("the restart scan does not end");
    }
    // Nothing is under way, so this is a pause.
    static_cast<void>(queue_->Wait(Clock::now() + std::chrono::microseconds(200)));
  }
  return true;
}

KillWorker::Pending* KillWorker::FreePending() {
  const auto free = std::find_if(pending_.begin(), pending_.end(),
                                 [](const Pending& pending) { return !pending.is_active; });
  return free == pending_.end() ? nullptr : &*free;
}

// What was acknowledged is there, what was erased is not, and every byte is right.
bool KillWorker::Verify() {
  const Instant give_up_at = Clock::now() + kPatience;
  for (std::uint32_t key = 0; key < model_.keys() || active_ > 0;) {
    Pending* const pending = key < model_.keys() ? FreePending() : nullptr;
    if (pending == nullptr) {
      Reap(give_up_at);
      if (Clock::now() > give_up_at) {
        return Violates("reads after the restart do not end");
      }
      continue;
    }
    *pending = Pending{};
    pending->is_verifying = true;
    pending->space = model_.NamespaceOf(key);
    pending->keys.push_back(key++);
    Prepare(*pending);
    Submit(*pending);
  }
  return !has_violation();
}

void KillWorker::Work() {
  journal_.phase = KillJournal::Phase::kWorking;
  constexpr std::size_t kStepsOfOneRequest = 4 * kBlocksPerRequestMax + kKillKeysPerNamespace + 1;
  constexpr std::size_t kStepsEnough =
      KillJournal::kStepsMax - kStepsOfOneRequest * (kRequestsAtOnce + 1);
  while (!has_violation() && journal_.step_count() < kStepsEnough) {
    Pending* const pending = FreePending();
    const std::uint64_t reuses = engine_->Stats().nvme_store.segments_reused;
    journal_.segments_reused += reuses - std::exchange(reuses_seen_, reuses);
    if (random_.Chance(0.005)) {
      EraseOneNamespace();
    } else if (pending != nullptr && !random_.Chance(0.1)) {
      SubmitRandom(*pending);
    } else {
      Reap(Clock::now() + std::chrono::milliseconds(50));
    }
  }
  // It is to be killed, not to end.
  while (!has_violation()) {
    Reap(Clock::now() + std::chrono::milliseconds(50));
  }
}

KillWorker::Pending* KillWorker::AwaitFree() {
  while (!has_violation()) {
    if (Pending* const pending = FreePending(); pending != nullptr) {
      *pending = Pending{};
      return pending;
    }
    Reap(Clock::now() + std::chrono::milliseconds(50));
  }
  return nullptr;
}

void KillWorker::WorkALittle() {
  constexpr int kRequests = 40;
  for (int i = 0; i < kRequests; ++i) {
    if (Pending* const pending = AwaitFree(); pending != nullptr) {
      SubmitRandom(*pending);
    }
  }
}

// Every other run of keys persists.
void KillWorker::Fill() {
  for (std::uint32_t first = 0; first < model_.keys(); first += kBlocksPerRequestMax) {
    for (const Kind kind : {Kind::kPut, Kind::kPersist}) {
      Pending* const pending = AwaitFree();
      if (pending == nullptr || (kind == Kind::kPersist && first / kBlocksPerRequestMax % 2 == 0)) {
        continue;
      }
      pending->kind = kind;
      pending->space = model_.NamespaceOf(first);
      for (std::uint32_t key = first; key < first + kBlocksPerRequestMax; ++key) {
        pending->keys.push_back(key);
      }
      Prepare(*pending);
      Submit(*pending);
    }
  }
}

void KillWorker::Close() {
  while (active_ > 0 && !has_violation()) {
    Reap(Clock::now() + std::chrono::milliseconds(50));
  }
  queue_.reset();
  if (const Status closed = engine_->Close(); !closed.ok()) {
    Violates("the engine does not close: " + closed.ToString());
  }
  engine_.reset();
  journal_.phase = KillJournal::Phase::kClosed;
}

void KillWorker::EraseOneNamespace() {
  const auto space = static_cast<std::uint32_t>(random_.Below(kKillNamespaces));
  const std::uint32_t first = space * kKillKeysPerNamespace;
  for (std::uint32_t key = first; key < first + kKillKeysPerNamespace; ++key) {
    Note({KillStep::Kind::kDisturb, key, 0});
  }
  if (engine_->EraseNamespace(handles_[space]).ok()) {
    Note({KillStep::Kind::kEraseNamespace, space, 0});
  }
  ++journal_.operations;
}

void KillWorker::SubmitRandom(Pending& pending) {
  pending = Pending{};
  const std::uint64_t dice = random_.Below(100);
  pending.kind = dice < 48   ? Kind::kPut
                 : dice < 66 ? Kind::kGet
                 : dice < 70 ? Kind::kPrefetch
                 : dice < 84 ? Kind::kPersist
                 : dice < 89 ? Kind::kUnpersist
                             : Kind::kErase;
  pending.space = static_cast<std::uint32_t>(random_.Below(kKillNamespaces));
  const std::uint32_t base = pending.space * kKillKeysPerNamespace;
  const auto length = random_.Between(1, kBlocksPerRequestMax);
  const auto root = random_.Below(kKillKeysPerNamespace - kBlocksPerRequestMax);
  for (std::uint64_t i = 0; i < length; ++i) {
    pending.keys.push_back(base + static_cast<std::uint32_t>(root + i));
  }
  Prepare(pending);
  Submit(pending);
}

void KillWorker::Prepare(Pending& pending) {
  for (const std::uint32_t key : pending.keys) {
    pending.block_keys.push_back(model_.BlockKeyOf(key));
    pending.oldest.push_back(model_.OldestOf(key));
    pending.disturbances.push_back(model_.DisturbancesOf(key));
    if (pending.kind == Kind::kPut || pending.kind == Kind::kGet) {
      pending.buffers.emplace_back(kBlockBytes[pending.space]);
    }
    if (pending.kind == Kind::kPut) {
      Note({KillStep::Kind::kBeginPut, key, 0});
      model_.FillBytes(key, model_.VersionOf(key), pending.buffers.back());
    } else if (pending.kind == Kind::kErase) {
      Note({KillStep::Kind::kBeginErase, key, 0});
    } else if (pending.kind == Kind::kUnpersist) {
      Note({KillStep::Kind::kDisturb, key, 0});
    }
  }
  for (auto& buffer : pending.buffers) {
    pending.sources.push_back(buffer.data());
    pending.targets.push_back(buffer.data());
  }
}

void KillWorker::Submit(Pending& pending) {
  pending.is_active = true;
  ++active_;
  ++journal_.operations;
  const Result<Ticket> ticket = Call(pending);
  if (ticket.ok()) {
    pending.ticket = *ticket;
  } else {
    Completion refused;
    refused.status = ticket.status();
    End(pending, refused);
  }
}

Result<Ticket> KillWorker::Call(const Pending& pending) {
  RequestOptions options;
  if (!pending.is_verifying && random_.Chance(0.1)) {
    options.deadline = Clock::now() + std::chrono::microseconds(random_.Below(5'000));
  }
  const NamespaceHandle in = handles_[pending.space];
  const KeysRequest keys{.in = in, .keys = pending.block_keys, .options = options};
  switch (pending.kind) {
    case Kind::kPut:
      return engine_->Put(
          {.in = in, .keys = pending.block_keys, .sources = pending.sources, .options = options},
          *queue_);
    case Kind::kGet:
      return engine_->Get(
          {.in = in, .keys = pending.block_keys, .targets = pending.targets, .options = options},
          *queue_);
    case Kind::kPrefetch:
      return engine_->Prefetch(keys, *queue_);
    case Kind::kPersist:
      return engine_->Persist(keys, *queue_);
    case Kind::kUnpersist:
      return engine_->Unpersist(keys, *queue_);
    case Kind::kErase:
      break;
  }
  return engine_->Erase(keys, *queue_);
}

void KillWorker::Reap(Instant deadline) {
  if (active_ == 0 || !queue_->Wait(deadline).ok()) {
    return;
  }
  std::array<Completion, kRequestsAtOnce> ended;
  const std::size_t count = queue_->Poll(ended);
  for (std::size_t i = 0; i < count; ++i) {
    const auto pending = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& other) {
      return other.is_active && other.ticket == ended[i].ticket;
    });
    if (pending == pending_.end()) {
      Violates("a request ended that was not under way");
      return;
    }
    End(*pending, ended[i]);
  }
}

void KillWorker::End(Pending& pending, const Completion& completion) {
  pending.is_active = false;
  --active_;
  const std::uint32_t ready = completion.blocks_ready;
  if (ready > pending.keys.size()) {
    Violates("a completion tells of more blocks than were asked for");
    return;
  }
  if (pending.kind == Kind::kGet) {
    CheckBlocks(pending, ready);
  }
  if (pending.is_verifying) {
    CheckFound(pending, completion);
  }
  for (std::uint32_t i = 0; i < pending.keys.size(); ++i) {
    const std::uint32_t key = pending.keys[i];
    if (pending.kind == Kind::kPut) {
      Note({KillStep::Kind::kEndPut, key, 0});
    } else if (pending.kind == Kind::kErase) {
      Note({i < ready ? KillStep::Kind::kEndErase : KillStep::Kind::kGiveUpErase, key, 0});
      journal_.acknowledged += i < ready ? 1U : 0U;
    } else if (pending.kind == Kind::kPersist && i < ready) {
      Note({KillStep::Kind::kEndPersist, key, pending.disturbances[i]});
      journal_.acknowledged += 1;
    }
  }
}

void KillWorker::CheckBlocks(const Pending& pending, std::uint32_t ready) {
  for (std::uint32_t i = 0; i < ready; ++i) {
    const std::uint32_t key = pending.keys[i];
    ++journal_.blocks_compared;
    if (model_.IsOneOf(key, pending.oldest[i], model_.VersionOf(key), pending.buffers[i])) {
      continue;
    }
    std::string which = "bytes of no version";
    for (std::uint32_t version = 0; version < pending.oldest[i]; ++version) {
      which = model_.IsOneOf(key, version, version, pending.buffers[i])
                  ? "version " + std::to_string(version) + ", which was erased"
                  : which;
    }
    Violates((pending.is_verifying ? "after the restart key " : "key ") + std::to_string(key) +
             " has " + which);
  }
}

void KillWorker::CheckFound(const Pending& pending, const Completion& completion) {
  const std::uint32_t key = pending.keys.front();
  journal_.is_found.at(key) = completion.blocks_ready > 0;
  if (!model_.IsPersisted(key) || options_.is_damaged) {
    return;
  }
  ++journal_.blocks_found;
  if (completion.blocks_ready == 0) {
    Violates("key " + std::to_string(key) + " was persisted, and is a miss after the restart: " +
             std::string(ToString(completion.next_missing)) + ", " + completion.status.ToString());
  }
}

}  // namespace kvferry::stress
