// What a run is made of, and its steps.
#include "stress/sim_world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kvferry/policy.h"

#include "base/assert.h"
#include "stress/stress_namespace.h"

namespace kvferry::stress {
namespace {

constexpr std::uint64_t kHostBytes = std::uint64_t{4} << 20;
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
    if (core.seed % 4 == 0) {
      core.offload_queue_max = 2;  // So few that some blocks have to be looked for.
    }
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

bool SimWorld::Step() {
  ++outcome_.counts.steps;
  const bool has_done = core_->Step(clock_.Now());
  core_->CheckInvariants();
  if (!has_done && random_.Chance(0.25)) {
    CheckRests();
  }
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

// Where nothing is under way whose end would bring another step, one that has done nothing leaves
// nothing to do, or asks for another one soon: a mover that sleeps would be woken by nobody.
void SimWorld::CheckRests() {
  constexpr Duration kSoon = std::chrono::milliseconds(100);
  constexpr int kStepsAtOnceMax = 8;
  const Instant next = core_->next_deadline();
  const Instant event = drives_ == nullptr ? Instant::max() : drives_->NextEventTime();
  const bool is_scanning = core_->nvme() != nullptr && !core_->nvme()->store().is_scanned();
  if (next <= clock_.Now()) {
    // It asks for another one at once; each is to get it further.
    int steps = 0;
    while (!core_->Step(clock_.Now()) && core_->next_deadline() <= clock_.Now()) {
      ++steps;
      if (steps == kStepsAtOnceMax) {
        Fail("steps do nothing, and ask for another one at once");
      }
    }
    return;
  }
  if (is_scanning || next <= clock_.Now() + kSoon ||
      std::min(event, workers_->NextEventTime()) != Instant::max()) {
    return;
  }
  const std::size_t held = drives_ == nullptr ? 0 : drives_->in_flight();  // By stalled drives.
  const bool has_done = core_->Step(clock_.Now());
  if (has_done || (drives_ != nullptr && drives_->in_flight() != held)) {
    Fail("a step has left something to do, and did not ask for another one");
  }
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
    CheckAfterScript();
  }
  if (drives_ != nullptr) {
    outcome_.faults = drives_->fault_counts();
  }
  AddCounts(core_->Stats());
  outcome_.digest = digest_;
  return outcome_;
}

}  // namespace kvferry::stress
