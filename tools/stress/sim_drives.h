// SimDrives: the drives and the manifest of a simulated NVMe tier: what a crash leaves of them, and
// how they are opened again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine_core.h"
#include "sim/sim_disk.h"
#include "sim/sim_manifest.h"
#include "sim/sim_ring.h"
#include "stress/memory_files.h"
#include "stress/patient_manifest.h"

namespace kvferry::stress {

// One operation of the drives, or one batch of the simulated manifest, that meets a fault.
struct NthFault {
  std::uint64_t number = 0;  // Among those since the drives were first attached.
  bool is_batch = false;
  sim::SimFault fault = sim::SimFault::kReadError;
  bool is_lasting = false;  // So do all behind it, until the faults are over.
};

// Outlives the cores that it is attached to, one at a time.
//
// Thread-compatible.
class SimDrives {
 public:
  // Sizes, speeds and the options of the tier follow from `random`. With a folder, which is empty
  // and stays so, the manifest is the real one, on files in memory, and the power may go with any
  // change of these: is_out() then.
  SimDrives(ManualClock& clock, Random random, std::string manifest_folder = {});

  // Of the tier; the same for every core.
  const engine::NvmeArrows::Options& options() const noexcept { return options_; }
  std::uint32_t blocks_max() const noexcept;

  // Opens what is there, with these faults, for the core, whose tier must be off. False where the
  // manifest said no; then it is to be tried again.
  bool Attach(engine::EngineCore& core, const sim::SimFaults& faults);
  bool is_attached() const noexcept { return ring_ != nullptr; }
  // The power has gone by itself: CrashNow(kPowerCut) is to follow.
  bool is_out() const { return is_out_; }
  // Carries on where a tier has failed: it is stopped, goes off when it is quiet, and comes back
  // after a while. To be called after each step.
  void TendTo(engine::EngineCore& core, const sim::SimFaults& faults);

  enum class Crash : std::uint8_t { kKill, kPowerCut };
  // The process or the power goes. What is in flight ends into a core that is still there, and that
  // may only be destroyed afterwards.
  void CrashNow(Crash crash);

  // The simulated manifest is gone, and another is made from what the drives hold. After CrashNow.
  void LoseManifest();
  bool CanLoseManifest() const { return manifest_folder_.empty(); }

  // Drives that have stalled go on.
  void ReleaseHeld();
  void SetFaults(const sim::SimFaults& faults);
  // Before the first Attach.
  void SetNthFault(const NthFault& fault) { nth_fault_ = fault; }
  // Of drives and manifest.
  std::size_t in_flight() const;
  // Operations of the drives and batches of the manifest, those that are gone included.
  std::uint64_t operation_count() const;
  std::uint64_t batch_count() const;
  // When something is due next; Instant::max(): nothing is.
  Instant NextEventTime() const;
  // Of all rings and manifests so far.
  sim::FaultCounts fault_counts() const;

 private:
  void ArmNthFault();
  bool AttachWith(engine::EngineCore& core, tiers::Manifest& manifest);
  bool AttachPatient(engine::EngineCore& core);
  void Close();

  ManualClock& clock_;
  Random random_;
  engine::NvmeArrows::Options options_;
  std::vector<std::unique_ptr<sim::SimDisk>> disks_;
  sim::SimManifestStore store_;
  std::string manifest_folder_;  // Empty: the manifest is simulated.
  MemoryFiles files_;
  std::unique_ptr<sim::SimRing> ring_;
  std::unique_ptr<sim::SimManifest> manifest_;
  std::unique_ptr<PatientManifest> patient_;
  bool is_out_ = false;
  std::optional<NthFault> nth_fault_;
  std::uint64_t operations_gone_ = 0;  // Of rings and manifests that are gone.
  std::uint64_t batches_gone_ = 0;
  Instant back_at_ = Instant::max();
  sim::FaultCounts counts_;  // Of those that are gone.
};

}  // namespace kvferry::stress
