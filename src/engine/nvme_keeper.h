// NvmeKeeper: opens the NVMe tier, closes it when it has failed, and tries it again.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "kvferry/options.h"
#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/mutex.h"
#include "engine/engine_core.h"
#include "engine/mover_bell.h"
#include "engine/nvme_opening.h"
#include "tiers/nvme/open_io_ring.h"

namespace kvferry::engine {

// Opening and closing wait for drives, so a thread of its own does both; the mover attaches what is
// open, and detaches what has failed once nothing of it is in flight. A drive that has stalled
// keeps the tier as it is: then requests end by their deadlines. The same thread looks whether the
// store's files are still there (StoreWatch) every kLookPause, or nvme.probe_ms if that is less,
// since reads and writes of what was deleted go on well, and tell nothing.
//
// Open and the destructor are for the thread that owns the engine, the rest for the mover thread.
class NvmeKeeper {
 public:
  // What a persist says can be wrong for as long, where somebody takes the files away.
  static constexpr Duration kLookPause = std::chrono::seconds(1);

  // `options` has NVMe paths. Both are borrowed.
  NvmeKeeper(const EngineOptions& options, MoverBell& bell);
  NvmeKeeper(const NvmeKeeper&) = delete;
  NvmeKeeper& operator=(const NvmeKeeper&) = delete;
  // Closes what is open; the mover has given it up by then.
  ~NvmeKeeper();

  // Opens the tier on the calling thread, before the mover runs. Where it is not required, a
  // failure is logged, and tried again later.
  Status Open();

  // Attaches what was opened, for the first time. As Open.
  Status Begin(EngineCore& core);
  // What there is to do between two steps; whether that was anything.
  bool Tend(EngineCore& core, Instant now);
  // When Tend is to be called at the latest.
  Instant next_deadline() const noexcept { return try_at_; }
  // Why the tier is off, or goes off; empty while it is on.
  const std::string& reason() const noexcept { return last_reason_; }
  // The mover ends: gives up the ring, which is quiet. With `is_stalled` it is not, and is leaked
  // with all that it may still write to.
  void End(EngineCore& core, bool is_stalled);

 private:
  class Bell final : public tiers::ManifestBell {
   public:
    explicit Bell(MoverBell& bell) : bell_(bell) {}
    void Ring() noexcept override { bell_.Ring(); }

   private:
    MoverBell& bell_;
  };

  Status Attach(EngineCore& core);
  void Detach(EngineCore& core, Instant now);
  // Whether the tier goes off, and tells why once.
  bool IsFailing(EngineCore& core);
  void Work();
  // Until there is some, or it is time to look at the files.
  void WaitForWork() KVFERRY_REQUIRES(mutex_);
  void LookAtFiles();
  tiers::StoreFate CloseAfterLook(OpenedNvme& to_close);

  const EngineOptions& options_;
  MoverBell& mover_bell_;
  Bell bell_;
  // The mover's.
  OpenedNvme opened_;
  std::unique_ptr<tiers::IoRing> ring_;
  Instant try_at_ = Instant::max();  // Of the next attempt, while the tier is off.
  std::string last_reason_;          // Is logged once.

  Mutex mutex_;  // Guards what follows.
  ConditionVariable work_came_;
  std::optional<OpenedNvme> to_close_ KVFERRY_GUARDED_BY(mutex_);
  bool is_wanted_ KVFERRY_GUARDED_BY(mutex_) = false;
  NvmePast past_ KVFERRY_GUARDED_BY(mutex_);
  bool is_on_ KVFERRY_GUARDED_BY(mutex_) = false;
  std::optional<tiers::StoreWatch> to_watch_ KVFERRY_GUARDED_BY(mutex_);
  std::optional<tiers::StoreWatch::Finding> finding_ KVFERRY_GUARDED_BY(mutex_);
  std::optional<Result<OpenedNvme>> result_ KVFERRY_GUARDED_BY(mutex_);
  bool is_ending_ KVFERRY_GUARDED_BY(mutex_) = false;

  std::optional<tiers::StoreWatch> watch_;  // The thread's.
  std::thread thread_;
};

}  // namespace kvferry::engine
