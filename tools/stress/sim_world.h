// SimWorld: one seeded run of the engine's core: several callers, a model of what they may see, a
// simulated drive, and a clock that only moves when nothing can be done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine_core.h"
#include "stress/block_model.h"
#include "stress/sim_copy_workers.h"
#include "stress/sim_drives.h"

namespace kvferry::stress {

enum class FaultLevel : std::uint8_t { kNone, kRare, kHostile };

struct SimOptions {
  std::uint64_t seed = 1;
  std::uint32_t operations = 2'000;
  FaultLevel faults = FaultLevel::kHostile;
  // Where they are not 0, instead of what follows from the seed: blocks in host memory, and
  // requests under way at a time.
  std::uint32_t residents_max = 0;
  std::uint32_t callers = 0;
  // Copies are told as done that were not: a bug that has to be found.
  bool skips_copies = false;
  // Not 0: the run ends after so many power cuts and not by `operations`, and the manifest is the
  // real one, for which RocksDB wants an empty folder. After each all that was persisted is read.
  std::uint32_t power_cuts = 0;
  std::string manifest_folder = {};
  // A run that never crashes by itself, so that a fault can be put at each of its operations. At
  // its end, faults over, something new is stored; then the power goes, and what was persisted is
  // looked for, unless the fault is a lie of the drive.
  bool is_script = false;
  std::optional<NthFault> nth_fault = {};
};

// What happened in one run or several, so that a run in which nothing did is found out.
struct SimCounts {
  std::uint64_t operations = 0;
  std::uint64_t steps = 0;
  std::uint64_t blocks_compared = 0;  // That came back.
  std::uint64_t hits_nvme = 0;
  std::uint64_t offloads = 0;
  std::uint64_t moves = 0;      // Between segments.
  std::uint64_t persisted = 0;  // Blocks of which Persist said so.
  std::uint64_t crashes = 0;
  std::uint64_t manifests_lost = 0;  // Of these.
  std::uint64_t closed = 0;          // Of these too: after an orderly close.
  std::uint64_t power_cuts = 0;
  std::uint64_t cuts_within_changes = 0;  // Of the files of the real manifest.
  std::uint64_t acknowledged = 0;         // Blocks of which Persist or Erase said so.
  std::uint64_t drive_operations = 0;
  std::uint64_t batches = 0;  // Of the simulated manifest.
  std::uint64_t found = 0;    // Blocks that were there again after a crash.
  std::uint64_t times_off = 0;
  std::uint64_t evictions = 0;
  std::uint64_t coalesced_reads = 0;
  std::uint64_t failed_checks = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t deadlines_missed = 0;
  std::uint64_t other_namespace = 0;  // Requests that met a key of another namespace.

  SimCounts& operator+=(const SimCounts& other);
};

struct SimOutcome {
  SimCounts counts;
  std::uint64_t digest = 0;  // Of everything that callers saw; equal for equal options.
  sim::FaultCounts faults;
};

// What of a run other processes may watch.
struct SimProgress {
  std::uint64_t operations = 0;
};

// Everything about the run (pool sizes, callers, policy, layout) follows from the seed. After every
// step the core's invariants are checked; every completion is checked against the model. A
// violation stops the process after a line on standard error, as a broken check does.
//
// Thread-compatible.
class SimWorld final : private engine::RequestSink {
 public:
  explicit SimWorld(const SimOptions& options);
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;
  ~SimWorld() override;

  SimOutcome Run(SimProgress& progress);

 private:
  static constexpr std::uint32_t kNamespaces = 3;
  static constexpr std::uint32_t kKeysPerNamespace = 48;
  static constexpr std::uint32_t kBlocksPerRequestMax = 12;
  // By namespace: with and without whole pages, in different size classes.
  static constexpr std::array<std::uint32_t, kNamespaces> kBlockBytes{4'096, 6'000, 20'480};

  // One request, from its submission to its completion; and its memory for a while longer.
  struct Pending {
    bool is_active = false;
    engine::Call::Kind kind = engine::Call::Kind::kGet;
    std::uint32_t space = 0;
    // Must find nothing: it asks under another namespace than `space`, or that was erased since.
    bool is_barred = false;
    Instant deadline;
    std::vector<std::uint32_t> keys;
    std::vector<BlockKey> block_keys;
    std::vector<std::uint32_t> versions;      // The oldest when it was submitted.
    std::vector<std::uint32_t> disturbances;  // Likewise.
    std::vector<std::vector<std::byte>> buffers;
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    std::uint64_t settled_sum = 0;  // Of the buffers at completion: nobody may write them later.
  };
  struct Held {
    std::uint32_t handle = 0;
    std::uint32_t key = 0;
    std::uint32_t oldest = 0;
    std::uint32_t newest = 0;
    Instant until;
  };

  void OnRequestDone(std::uint32_t request,
                     const Completion& completion,
                     std::uint32_t first_handle) noexcept override;
  [[noreturn]] void Fail(const std::string& what) const;

  NamespaceOptions OptionsFor(std::uint32_t space, double quota_chance);
  void ChangeQuotas();
  // Of the space, or of another one, in which none of its keys are stored.
  NamespaceHandle HandleFor(std::uint32_t space, bool is_foreign) const;
  void Open();
  void Crash();
  bool CloseOrderly();
  void CheckPersisted();
  bool IsAtItsEnd() const;
  // The next block that was persisted before the crash; nothing once all are asked for.
  std::optional<std::uint32_t> NextToReread();
  void CheckIntact();
  void CheckNewStores();
  // Of a script: new stores, a power cut, and what is there after it.
  void CheckAfterScript();
  void CheckAfterPowerCut();
  void AddCounts(const EngineStats& stats);
  void Submit();
  engine::Call MakeCall(Pending& pending);
  void SubmitRequest(std::uint32_t slot, std::optional<engine::Call::Kind> kind = {});
  void EraseOneNamespace();
  void LookUp();
  void ReleaseHeld(bool all);
  void CheckBlocks(const Pending& pending, std::uint32_t ready);
  void CheckStored(const Pending& pending, const Completion& completion);
  void EndErases(const Pending& pending, std::uint32_t ready);
  void TakeHandles(const Pending& pending, std::uint32_t ready, std::uint32_t handle);
  std::uint64_t SumOf(const Pending& pending) const;
  bool Step();
  void CheckRests();
  void MoveClock();
  void Drain();
  void CheckServiceAfterFaults();
  void Mix(std::uint64_t value) { digest_ = (digest_ ^ value) * 0x9e3779b97f4a7c15ULL; }

  SimOptions options_;
  Random random_;
  ManualClock clock_;
  BlockModel model_;
  engine::EngineCore::Options core_options_;
  std::vector<NamespaceOptions> space_options_;
  std::unique_ptr<engine::NamespaceTable> namespaces_;
  std::vector<NamespaceHandle> handles_;  // By space.
  std::unique_ptr<SimDrives> drives_;     // Null: there is no NVMe tier.
  std::unique_ptr<tiers::HostSlabs> slabs_;
  std::unique_ptr<SimCopyWorkers> workers_;
  std::unique_ptr<engine::EngineCore> core_;
  std::vector<Pending> pending_;
  std::vector<Held> held_;
  std::uint32_t callers_ = 1;
  std::uint32_t active_ = 0;
  bool is_found_checked_ = true;  // What persists was looked for since the last crash.
  std::uint32_t next_reread_ = ~std::uint32_t{0};  // Of the keys.
  SimOutcome outcome_;
  std::uint64_t digest_ = 0;
};

}  // namespace kvferry::stress
