// Random requests, and the comparison of each end with the model.
#include "stress/sim_world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kvferry/policy.h"

#include "base/assert.h"
#include "base/checksum.h"
#include "stress/stress_namespace.h"

namespace kvferry::stress {
namespace {

constexpr std::uint32_t kNamespaces = 3;
constexpr std::uint32_t kKeysPerNamespace = 48;
constexpr std::uint64_t kHostBytes = std::uint64_t{4} << 20;
constexpr std::uint32_t kBlocksPerRequestMax = 12;
constexpr Duration kIdleAfterMax = std::chrono::seconds(30);
constexpr std::uint32_t kClosingStepsMax = 100'000;
constexpr Duration kLateness = std::chrono::milliseconds(100);
// After the last fault something new is stored by then.
constexpr Duration kBackWithin = std::chrono::seconds(10);
// Sizes with and without whole pages, in different size classes.
constexpr std::array<std::uint32_t, kNamespaces> kBlockBytes{4'096, 6'000, 20'480};

constexpr std::array<std::string_view, 17> kPolicies{"leaf-lru",
                                                     "leaf-lru",
                                                     "lru-head-first",
                                                     "arc",
                                                     "s3-fifo",
                                                     "lirs",
                                                     "auto",
                                                     "w-tinylfu",
                                                     "gdsf",
                                                     "fifo",
                                                     "clock",
                                                     "sieve",
                                                     "lfu",
                                                     "2q",
                                                     "leaf-lru",
                                                     "second-sight:leaf-lru",
                                                     "adaptive:leaf-lru"};

bool IsRead(engine::Call::Kind kind) {
  return kind == engine::Call::Kind::kGet || kind == engine::Call::Kind::kPrefetch ||
         kind == engine::Call::Kind::kPin;
}

// What no drive may do: it says that all is well, or gives other bytes than it should.
bool IsLie(sim::SimFault fault) {
  switch (fault) {
    case sim::SimFault::kTruncatedRead:
    case sim::SimFault::kTornWriteUnseen:
    case sim::SimFault::kBitRot:
    case sim::SimFault::kMisdirectedRead:
    case sim::SimFault::kStaleRead:
    case sim::SimFault::kMisdirectedWrite:
    case sim::SimFault::kLostWrite:
      return true;
    default:
      return false;
  }
}

// A drive that lies, that has lost what it was to keep, or whose reads go on failing, so that its
// segments are given up.
bool MayCostPersisted(const NthFault& nth) {
  return IsLie(nth.fault) || nth.fault == sim::SimFault::kBadPlace ||
         (nth.is_lasting && sim::Befalls(nth.fault, sim::SimTarget::kRead));
}

sim::SimFaults FaultsOf(FaultLevel level) {
  switch (level) {
    case FaultLevel::kNone:
      return sim::SimFaults::None();
    case FaultLevel::kRare:
      return sim::SimFaults::Rare();
    case FaultLevel::kHostile:
      return sim::SimFaults::Hostile();
  }
  return sim::SimFaults::None();
}

}  // namespace

SimCounts& SimCounts::operator+=(const SimCounts& other) {
  operations += other.operations;
  steps += other.steps;
  blocks_compared += other.blocks_compared;
  hits_nvme += other.hits_nvme;
  offloads += other.offloads;
  moves += other.moves;
  persisted += other.persisted;
  crashes += other.crashes;
  power_cuts += other.power_cuts;
  cuts_within_changes += other.cuts_within_changes;
  acknowledged += other.acknowledged;
  manifests_lost += other.manifests_lost;
  drive_operations += other.drive_operations;
  batches += other.batches;
  closed += other.closed;
  found += other.found;
  times_off += other.times_off;
  evictions += other.evictions;
  coalesced_reads += other.coalesced_reads;
  failed_checks += other.failed_checks;
  cancelled += other.cancelled;
  deadlines_missed += other.deadlines_missed;
  other_namespace += other.other_namespace;
  return *this;
}

SimWorld::SimWorld(const SimOptions& options)
    : options_(options),
      random_(options.seed),
      clock_(Instant(std::chrono::seconds(1))),
      model_(kNamespaces, kKeysPerNamespace) {
  for (std::uint32_t space = 0; space < kNamespaces; ++space) {
    space_options_.push_back(OptionsFor(space, 0.25));
  }
  engine::EngineCore::Options& core = core_options_;
  core.residents_max = static_cast<std::uint32_t>(random_.Chance(0.5) ? random_.Between(1, 8)
                                                                      : random_.Between(9, 48));
  if (options.residents_max != 0) {
    core.residents_max = options.residents_max;
  }
  core.history_max = static_cast<std::uint32_t>(random_.Between(0, 64));
  core.requests_max = std::max(options.callers, static_cast<std::uint32_t>(random_.Between(1, 24)));
  core.blocks_per_request_max = kBlocksPerRequestMax;
  core.handles_max = static_cast<std::uint32_t>(random_.Between(1, 32));
  core.held_bytes_max = random_.Between(1, 40) * 16'384;
  core.transfers_max = static_cast<std::uint32_t>(random_.Between(2, 16));
  core.seed = random_.Next();
  // Few at a time, so that callers meet what is still to be swept.
  core.swept_max = static_cast<std::uint32_t>(random_.Between(1, 64));
  core.policy = kPolicies[random_.Below(kPolicies.size())];
  core.verify_on_get = random_.Chance(0.3);
  if (random_.Chance(0.85) || options.power_cuts > 0 || options.is_script) {
    drives_ = std::make_unique<SimDrives>(clock_, random_.Fork(), options.manifest_folder);
    if (options.nth_fault) {
      drives_->SetNthFault(*options.nth_fault);
    }
    core.has_nvme = true;
    core.write_bytes_per_day = drives_->options().write_bytes_per_day;
    core.persisted_percent = drives_->options().persisted_percent;
    core.admits_on_second_touch = !options.is_script && random_.Chance(0.15);
    core.nvme_blocks_max = drives_->blocks_max();
    // So few that some blocks have to be looked for.
    core.offload_queue_max = static_cast<std::uint32_t>(core.seed % 4 == 0 ? 2 : 32'768);
  }
  callers_ = static_cast<std::uint32_t>(random_.Between(1, std::min(16U, core.requests_max)));
  if (options.callers != 0) {
    callers_ = options.callers;
  }
  Open();
}

NamespaceOptions SimWorld::OptionsFor(std::uint32_t space, double quota_chance) {
  NamespaceOptions wanted;
  wanted.block_bytes = kBlockBytes[space];
  wanted.tenant = space + 1;
  if (random_.Chance(quota_chance)) {
    wanted.host_quota_bytes = random_.Between(1, 8) * kBlockBytes[space];
    wanted.nvme_quota_bytes = random_.Between(1, 16) * 8'192;
  }
  return wanted;
}

NamespaceHandle SimWorld::HandleFor(std::uint32_t space, bool is_foreign) const {
  return handles_[is_foreign ? (space + 1) % kNamespaces : space];
}

// Gives a namespace other quotas.
void SimWorld::ChangeQuotas() {
  const auto space = static_cast<std::uint32_t>(random_.Below(kNamespaces));
  space_options_[space] = OptionsFor(space, 0.5);
  KVFERRY_CHECK(namespaces_->Add(DescriptionOf(space), space_options_[space]).ok());
}

// The drives go first: what is in flight ends into a core that is still there.
SimWorld::~SimWorld() {
  if (drives_ != nullptr) {
    drives_->CrashNow(SimDrives::Crash::kKill);
  }
}

// A process begins.
void SimWorld::Open() {
  namespaces_ = std::make_unique<engine::NamespaceTable>(kNamespaces);
  handles_.assign(kNamespaces, NamespaceHandle());
  const auto add_namespaces = [this] {
    for (std::uint32_t space = 0; space < kNamespaces; ++space) {
      const auto added = namespaces_->Add(DescriptionOf(space), space_options_[space]);
      KVFERRY_CHECK(added.ok());
      handles_[space] = *added;
    }
  };
  // Those that the store remembers are there before anybody has named them.
  const bool are_named_late = random_.Chance(0.5);
  if (!are_named_late) {
    add_namespaces();
  }
  tiers::HostSlabOptions slab_options;
  slab_options.memory.bytes = kHostBytes;
  slab_options.memory.huge_pages = tiers::HugePages::kNone;
  slab_options.poison_freed = true;
  auto slabs = tiers::HostSlabs::Create(slab_options);
  KVFERRY_CHECK(slabs.ok());
  slabs_ = std::move(*slabs);
  workers_ = std::make_unique<SimCopyWorkers>(clock_, random_.Fork(), options_.skips_copies);
  auto created = engine::EngineCore::Create(
      core_options_,
      {.workers = *workers_, .slabs = *slabs_, .namespaces = *namespaces_, .sink = *this});
  KVFERRY_CHECK(created.ok());
  core_ = std::move(*created);
  pending_.assign(core_options_.requests_max, Pending());
  held_.clear();
  active_ = 0;
  if (drives_ != nullptr) {
    drives_->Attach(*core_, FaultsOf(options_.faults));
  }
  if (are_named_late) {
    add_namespaces();
  }
}

// As an engine is closed that has time enough. False: it has not come to rest.
bool SimWorld::CloseOrderly() {
  const bool can_close = !options_.is_script && options_.faults == FaultLevel::kNone &&
                         drives_->CanLoseManifest() && core_->nvme() != nullptr &&
                         core_->nvme()->store().is_scanned();
  if (!can_close || random_.Chance(0.5)) {
    return false;
  }
  core_->StopOffloads();
  Drain();
  for (std::uint32_t steps = 0; !core_->is_idle() && steps < kClosingStepsMax; ++steps) {
    if (!Step()) {
      MoveClock();
    }
  }
  outcome_.counts.closed += core_->is_idle() ? 1U : 0U;
  return core_->is_idle();
}

// The process or the power goes, whatever is under way; and a new process begins.
void SimWorld::Crash() {
  ++outcome_.counts.crashes;
  const bool is_closed = CloseOrderly();
  const double kill_chance = options_.power_cuts > 0 ? 0.1 : options_.is_script ? 0 : 0.5;
  const bool is_cut = drives_->is_out() || !random_.Chance(kill_chance);
  outcome_.counts.power_cuts += is_cut ? 1U : 0U;
  outcome_.counts.cuts_within_changes += drives_->is_out() ? 1U : 0U;
  drives_->CrashNow(is_cut ? SimDrives::Crash::kPowerCut : SimDrives::Crash::kKill);
  AddCounts(core_->Stats());
  core_.reset();
  workers_.reset();
  model_.Crash();
  if (!options_.is_script && drives_->CanLoseManifest() && random_.Chance(0.25)) {
    drives_->LoseManifest();
    if (!is_closed) {
      model_.LoseManifest(options_.faults == FaultLevel::kNone);
    }
    ++outcome_.counts.manifests_lost;
  }
  is_found_checked_ = false;
  next_reread_ = ~std::uint32_t{0};
  Open();
}

// With drives that keep what they promise, all that persists is there again.
void SimWorld::CheckPersisted() {
  if (is_found_checked_ || core_->nvme() == nullptr || !core_->nvme()->store().is_scanned()) {
    return;
  }
  is_found_checked_ = true;
  if (options_.faults != FaultLevel::kNone ||
      (options_.nth_fault && MayCostPersisted(*options_.nth_fault))) {
    return;
  }
  for (std::uint32_t key = 0; key < model_.keys(); ++key) {
    const BlockKey block_key = model_.BlockKeyOf(key);
    const PrefixMatch match =
        core_->Match(handles_[model_.NamespaceOf(key)], std::span(&block_key, 1));
    if (model_.IsPersisted(key) && match.blocks() == 0) {
      Fail("key " + std::to_string(key) + " was persisted, and is not there after a crash");
    }
  }
  next_reread_ = 0;
}

std::optional<std::uint32_t> SimWorld::NextToReread() {
  while ((options_.power_cuts > 0 || options_.is_script) && next_reread_ < model_.keys()) {
    const std::uint32_t key = next_reread_++;
    if (model_.IsPersisted(key)) {
      return key;
    }
  }
  return std::nullopt;
}

// A row is recorded after its block is durable: no crash can come between, if no drive lies.
void SimWorld::CheckIntact() {
  if (options_.power_cuts > 0 && core_->Stats().failed_checks > 0) {
    Fail("a block was torn by a power cut, and yet had its row");
  }
}

void SimWorld::Fail(const std::string& what) const {
  std::fprintf(stderr, "violation: seed %llu, operation %llu: %s\n",
               static_cast<unsigned long long>(options_.seed),
               static_cast<unsigned long long>(outcome_.counts.operations), what.c_str());
  if (options_.nth_fault) {
    const NthFault& nth = *options_.nth_fault;
    std::fprintf(stderr, "%s %llu met a %s%s\n", nth.is_batch ? "batch" : "drive operation",
                 static_cast<unsigned long long>(nth.number),
                 std::string(sim::ToString(nth.fault)).c_str(), nth.is_lasting ? ", lasting" : "");
  }
  std::fflush(stderr);
  std::abort();
}

std::uint64_t SimWorld::SumOf(const Pending& pending) const {
  ChecksumStream stream(std::uint64_t{0});
  for (const auto& buffer : pending.buffers) {
    stream.Update(buffer);
  }
  std::uint64_t sum = 0;
  const Checksum checksum = stream.Finish();
  std::memcpy(&sum, checksum.bytes.data(), sizeof sum);
  return sum;
}

void SimWorld::CheckBlocks(const Pending& pending, std::uint32_t ready) {
  for (std::uint32_t i = 0; i < ready; ++i) {
    const std::uint32_t key = pending.keys[i];
    if (!model_.IsOneOf(key, pending.versions[i], model_.VersionOf(key), pending.buffers[i])) {
      std::string which = "no version";
      for (std::uint32_t version = 0; version <= model_.VersionOf(key); ++version) {
        which = model_.IsOneOf(key, version, version, pending.buffers[i])
                    ? "version " + std::to_string(version)
                    : which;
      }
      Fail("wrong bytes for key " + std::to_string(key) + ", block " + std::to_string(i) +
           " of its request: " + which + ", not " + std::to_string(pending.versions[i]) + " to " +
           std::to_string(model_.VersionOf(key)));
    }
    ++outcome_.counts.blocks_compared;
  }
}

void SimWorld::EndErases(const Pending& pending, std::uint32_t ready) {
  for (std::size_t i = 0; i < pending.keys.size(); ++i) {
    // Only what it says to have erased is certain to be gone.
    if (i < ready) {
      ++outcome_.counts.acknowledged;
      model_.EndErase(pending.keys[i]);
    } else {
      model_.GiveUpErase(pending.keys[i]);
    }
  }
}

void SimWorld::TakeHandles(const Pending& pending, std::uint32_t ready, std::uint32_t handle) {
  for (std::uint32_t i = 0; i < ready; ++i) {
    if (handle == engine::kNone || core_->held(handle).index != i) {
      Fail("a pin has lost a handle");
    }
    const std::uint32_t key = pending.keys[i];
    held_.push_back({handle, key, pending.versions[i], model_.VersionOf(key),
                     clock_.Now() + std::chrono::microseconds(random_.Below(50'000))});
    handle = core_->held(handle).next;
  }
  if (handle != engine::kNone) {
    Fail("a pin has a handle too many");
  }
}

void SimWorld::OnRequestDone(std::uint32_t request,
                             const Completion& completion,
                             std::uint32_t first_handle) noexcept {
  Pending& pending = pending_[request];
  if (!pending.is_active) {
    Fail("a request ended twice");
  }
  pending.is_active = false;
  --active_;
  Mix(request);
  Mix(completion.blocks_ready);
  Mix(static_cast<std::uint64_t>(completion.status.code()) << 8 |
      static_cast<std::uint64_t>(completion.next_missing));
  if (clock_.Now() > pending.deadline + kLateness) {
    Fail("a request ended late");
  }
  if (completion.blocks_ready > pending.keys.size() ||
      (completion.blocks_ready == pending.keys.size()) !=
          (completion.next_missing == MissReason::kNone)) {
    Fail("a completion contradicts itself");
  }
  if (pending.is_barred && completion.blocks_ready > 0) {
    Fail("a key was served under a namespace in which nobody stored it, or that was erased");
  }
  outcome_.counts.other_namespace += completion.next_missing == MissReason::kOtherNamespace ? 1 : 0;
  switch (pending.kind) {
    case engine::Call::Kind::kGet:
      CheckBlocks(pending, completion.blocks_ready);
      break;
    case engine::Call::Kind::kPut:
      for (const std::uint32_t key : pending.keys) {
        model_.EndPut(key);
      }
      break;
    case engine::Call::Kind::kErase:
      EndErases(pending, completion.blocks_ready);
      break;
    case engine::Call::Kind::kPin:
      TakeHandles(pending, completion.blocks_ready, first_handle);
      break;
    case engine::Call::Kind::kPersist:
      for (std::uint32_t i = 0; i < completion.blocks_ready; ++i) {
        model_.EndPersist(pending.keys[i], pending.disturbances[i]);
        ++outcome_.counts.persisted;
        ++outcome_.counts.acknowledged;
      }
      break;
    case engine::Call::Kind::kPrefetch:
    case engine::Call::Kind::kUnpersist:
      break;
  }
  pending.settled_sum = SumOf(pending);
}

void SimWorld::ReleaseHeld(bool all) {
  for (std::size_t i = 0; i < held_.size();) {
    if (!all && held_[i].until > clock_.Now()) {
      ++i;
      continue;
    }
    const Held held = held_[i];
    held_[i] = held_.back();
    held_.pop_back();
    if (!model_.IsOneOf(held.key, held.oldest, held.newest, core_->held(held.handle).bytes)) {
      Fail("the bytes of held key " + std::to_string(held.key) + " have changed");
    }
    core_->LetGo(held.handle);
  }
}

void SimWorld::Submit() {
  std::uint32_t slot = 0;
  while (slot < pending_.size() && pending_[slot].is_active) {
    ++slot;
  }
  const std::uint64_t dice = random_.Below(100);
  if (dice < 3) {
    EraseOneNamespace();
  } else if (dice < 10) {
    LookUp();
  } else if (dice < 16) {
    // Cancels whatever is there, finished or not.
    core_->EndEarly(static_cast<std::uint32_t>(random_.Below(pending_.size())),
                    StatusCode::kCancelled);
  } else if (dice == 16 && drives_ != nullptr && !options_.is_script &&
             (options_.power_cuts > 0 || random_.Chance(0.2))) {
    Crash();
  } else if (dice < 18) {
    ChangeQuotas();
  } else if (slot < pending_.size() && active_ < callers_) {
    SubmitRequest(slot);
  }
}

// What it says about itself, beside its keys and memory.
engine::Call SimWorld::MakeCall(Pending& pending) {
  engine::Call call;
  call.kind = pending.kind;
  pending.is_barred = IsRead(pending.kind) && random_.Chance(0.03);
  call.in = HandleFor(pending.space, pending.is_barred);
  if (pending.kind == engine::Call::Kind::kPut && random_.Chance(0.3)) {
    call.has_parent = true;
    call.parent = model_.BlockKeyOf(pending.space * kKeysPerNamespace +
                                    static_cast<std::uint32_t>(random_.Below(kKeysPerNamespace)));
  }
  call.erasures = namespaces_->erasures(call.in);
  call.block_bytes = kBlockBytes[pending.space];
  call.session = random_.Below(8);
  call.has_own_deadline = random_.Chance(0.5);
  pending.deadline =
      clock_.Now() + (random_.Chance(0.3) ? std::chrono::microseconds(random_.Below(3'000))
                                          : std::chrono::milliseconds(random_.Between(5, 400)));
  call.deadline = pending.deadline;
  if (random_.Chance(0.05)) {
    call.tiers = TierSet::Of(TierKind::kHost);
  } else if (random_.Chance(0.02)) {
    call.tiers = TierSet::Of(TierKind::kNvme);
  }
  if (random_.Chance(0.05)) {
    call.load_bytes_max = random_.Below(30'000);
  }
  return call;
}

void SimWorld::SubmitRequest(std::uint32_t slot, std::optional<engine::Call::Kind> kind) {
  Pending& pending = pending_[slot];
  if (pending.settled_sum != 0 && pending.settled_sum != SumOf(pending)) {
    Fail("memory of a request was written after its end");
  }
  pending = Pending{};
  const std::uint64_t dice = random_.Below(100);
  pending.kind = dice < 35   ? engine::Call::Kind::kPut
                 : dice < 66 ? engine::Call::Kind::kGet
                 : dice < 74 ? engine::Call::Kind::kPrefetch
                 : dice < 84 ? engine::Call::Kind::kPin
                 : dice < 90 ? engine::Call::Kind::kErase
                 : dice < 97 ? engine::Call::Kind::kPersist
                             : engine::Call::Kind::kUnpersist;
  pending.kind = kind.value_or(pending.kind);
  pending.space = static_cast<std::uint32_t>(random_.Below(kNamespaces));
  const std::optional<std::uint32_t> reread = NextToReread();
  if (reread) {
    pending.kind = engine::Call::Kind::kGet;
    pending.space = model_.NamespaceOf(*reread);
  }
  // Mostly runs from a few roots, sometimes anything, now and then a key twice.
  const std::uint32_t base = pending.space * kKeysPerNamespace;
  const auto root = static_cast<std::uint32_t>(random_.Below(4) * 12);
  const auto length = static_cast<std::uint32_t>(random_.Between(1, kBlocksPerRequestMax));
  const bool is_scattered = random_.Chance(0.1);
  if (reread) {
    pending.keys.push_back(*reread);
  }
  for (std::uint32_t i = 0; i < length && !reread; ++i) {
    pending.keys.push_back(
        base +
        (is_scattered ? static_cast<std::uint32_t>(random_.Below(kKeysPerNamespace)) : root + i));
  }
  engine::Call call = MakeCall(pending);
  for (const std::uint32_t key : pending.keys) {
    pending.block_keys.push_back(model_.BlockKeyOf(key));
    pending.versions.push_back(model_.OldestOf(key));
    pending.disturbances.push_back(model_.DisturbancesOf(key));
    if (pending.kind == engine::Call::Kind::kPut || pending.kind == engine::Call::Kind::kGet) {
      pending.buffers.emplace_back(kBlockBytes[pending.space]);
    }
    if (pending.kind == engine::Call::Kind::kPut) {
      model_.BeginPut(key);
      model_.FillBytes(key, model_.VersionOf(key), pending.buffers.back());
    } else if (pending.kind == engine::Call::Kind::kErase) {
      model_.BeginErase(key);
    } else if (pending.kind == engine::Call::Kind::kUnpersist) {
      model_.Disturb(key);
    }
  }
  for (auto& buffer : pending.buffers) {
    pending.sources.push_back(buffer.data());
    pending.targets.push_back(buffer.data());
  }
  call.keys = pending.block_keys;
  call.sources = pending.sources;
  call.targets = pending.targets;
  pending.is_active = true;
  ++active_;
  Mix(static_cast<std::uint64_t>(pending.kind) << 32 | pending.keys.front());
  core_->Start(slot, call);
}

void SimWorld::EraseOneNamespace() {
  const auto space = static_cast<std::uint16_t>(random_.Below(kNamespaces));
  if (namespaces_->BeginErase(handles_[space]).ok()) {
    model_.EraseNamespace(space);
    for (Pending& pending : pending_) {
      pending.is_barred = pending.is_barred || (IsRead(pending.kind) && pending.space == space);
    }
  }
}

void SimWorld::LookUp() {
  const auto space = static_cast<std::uint32_t>(random_.Below(kNamespaces));
  const auto first = static_cast<std::uint32_t>(random_.Below(kKeysPerNamespace - 8));
  std::vector<BlockKey> keys;
  for (std::uint32_t i = 0; i < 8; ++i) {
    keys.push_back(model_.BlockKeyOf(space * kKeysPerNamespace + first + i));
  }
  const bool is_foreign = random_.Chance(0.1);
  const PrefixMatch match = core_->Match(HandleFor(space, is_foreign), keys);
  if (is_foreign && match.blocks() > 0) {
    Fail("a key matched under a namespace in which nobody stored it");
  }
  if ((match.blocks() == keys.size()) != (match.next_missing == MissReason::kNone)) {
    Fail("a match contradicts itself");
  }
  Mix(match.blocks());
}

bool SimWorld::Step() {
  ++outcome_.counts.steps;
  const bool has_done = core_->Step(clock_.Now());
  core_->CheckInvariants();
  if (drives_ != nullptr) {
    drives_->TendTo(*core_, FaultsOf(options_.faults));
    CheckPersisted();
    CheckIntact();
    if (drives_->is_out()) {
      Crash();
    }
  }
  return has_done;
}

void SimWorld::MoveClock() {
  Instant next = std::min(workers_->NextEventTime(), core_->next_deadline());
  if (drives_ != nullptr) {
    next = std::min(next, drives_->NextEventTime());
  }
  for (const Held& held : held_) {
    next = std::min(next, held.until);
  }
  if (next == Instant::max()) {
    if (core_->unfinished() > 0) {
      Fail("requests are unfinished, and nothing will ever happen");
    }
    next = clock_.Now() + std::chrono::microseconds(random_.Below(500));
  }
  clock_.MoveTo(std::max(next, clock_.Now() + std::chrono::microseconds(1)));
}

void SimWorld::Drain() {
  while (core_->unfinished() > 0 || !held_.empty()) {
    ReleaseHeld(true);
    if (!Step()) {
      MoveClock();
    }
  }
}

// With the faults over, what is put comes back.
void SimWorld::CheckServiceAfterFaults() {
  const Instant give_up_at = clock_.Now() + kIdleAfterMax;
  const FaultLevel level = std::exchange(options_.faults, FaultLevel::kNone);
  if (drives_ != nullptr) {
    drives_->SetFaults(sim::SimFaults::None());
    drives_->ReleaseHeld();
  }
  while (!core_->is_idle() || (drives_ != nullptr && core_->nvme() == nullptr)) {
    if (clock_.Now() > give_up_at) {
      Fail("an engine that has nothing to do does not become idle");
    }
    if (!Step()) {
      MoveClock();
    }
  }
  const EngineStats stats = core_->Stats();
  if (stats.host.bytes_filling + stats.host.bytes_draining + stats.host.blocks_held +
          stats.nvme.bytes_filling + stats.offload_host_to_nvme.bytes_in_flight +
          stats.onboard_nvme_to_host.bytes_in_flight !=
      0) {
    Fail("an idle engine holds on to something");
  }
  options_.faults = level;
}

void SimWorld::AddCounts(const EngineStats& stats) {
  SimCounts& counts = outcome_.counts;
  counts.hits_nvme += stats.hits_nvme;
  counts.offloads += stats.offload_host_to_nvme.blocks;
  counts.moves += stats.nvme_store.blocks_moved;
  counts.found += stats.nvme_store.blocks_found;
  counts.times_off += stats.nvme_store.times_off;
  counts.evictions += stats.host.evictions;
  counts.coalesced_reads += stats.coalesced_reads;
  counts.failed_checks += stats.failed_checks;
  counts.cancelled += stats.cancelled;
  counts.deadlines_missed += stats.deadlines_missed;
}

// With the faults over, blocks reach the drive again.
void SimWorld::CheckNewStores() {
  constexpr int kTriesMax = 100;
  const std::uint64_t before = core_->Stats().offload_host_to_nvme.blocks;
  for (int i = 0; core_->Stats().offload_host_to_nvme.blocks == before; ++i) {
    if (i == kTriesMax) {
      Fail("the faults are over, and nothing is stored in the NVMe tier any more");
    }
    SubmitRequest(0, i % 2 == 0 ? engine::Call::Kind::kErase : engine::Call::Kind::kPut);
    Drain();
    CheckServiceAfterFaults();
    clock_.Advance(kBackWithin / kTriesMax);  // A drive that was full is not asked at once.
  }
}

void SimWorld::CheckAfterPowerCut() {
  Crash();
  CheckServiceAfterFaults();
  while (!is_found_checked_) {
    if (!Step()) {
      MoveClock();
    }
  }
  while (next_reread_ < model_.keys()) {
    SubmitRequest(0, engine::Call::Kind::kGet);
    Drain();
  }
  CheckServiceAfterFaults();
}

bool SimWorld::IsAtItsEnd() const {
  return options_.power_cuts > 0 ? outcome_.counts.power_cuts >= options_.power_cuts
                                 : outcome_.counts.operations >= options_.operations;
}

SimOutcome SimWorld::Run(SimProgress& progress) {
  while (!IsAtItsEnd()) {
    if (random_.Chance(0.4)) {
      ++outcome_.counts.operations;
      progress.operations = outcome_.counts.operations;
      Submit();
    }
    ReleaseHeld(false);
    if (!Step()) {
      MoveClock();
    } else if (random_.Chance(0.5)) {
      clock_.Advance(std::chrono::microseconds(random_.Below(50)));
    }
  }
  Drain();
  if (drives_ != nullptr) {
    // What comes later comes when the faults are over.
    outcome_.counts.drive_operations = drives_->operation_count();
    outcome_.counts.batches = drives_->batch_count();
  }
  CheckServiceAfterFaults();
  if (options_.is_script) {
    // A drive that went on lying has cost the segments in which that was seen, perhaps all of them.
    if (!options_.nth_fault || !options_.nth_fault->is_lasting ||
        !IsLie(options_.nth_fault->fault)) {
      CheckNewStores();
    }
    CheckAfterPowerCut();
  }
  if (drives_ != nullptr) {
    outcome_.faults = drives_->fault_counts();
  }
  AddCounts(core_->Stats());
  outcome_.digest = digest_;
  return outcome_;
}

}  // namespace kvferry::stress
