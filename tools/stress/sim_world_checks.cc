// Crashes, and what must be true after them and once the faults are over.
#include <utility>

#include "base/assert.h"
#include "stress/sim_world.h"

namespace kvferry::stress {
namespace {

constexpr Duration kIdleAfterMax = std::chrono::seconds(30);
constexpr std::uint32_t kClosingStepsMax = 100'000;
// After the last fault something new is stored by then.
constexpr Duration kBackWithin = std::chrono::seconds(10);

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

}  // namespace

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

// A row is recorded after its block is durable: no crash can come between, if no drive lies.
void SimWorld::CheckIntact() {
  if (options_.power_cuts > 0 && core_->Stats().failed_checks > 0) {
    Fail("a block was torn by a power cut, and yet had its row");
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

void SimWorld::CheckAfterScript() {
  // A drive that went on lying has cost the segments in which that was seen, perhaps all of them.
  if (!options_.nth_fault || !options_.nth_fault->is_lasting || !IsLie(options_.nth_fault->fault)) {
    CheckNewStores();
  }
  CheckAfterPowerCut();
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

}  // namespace kvferry::stress
