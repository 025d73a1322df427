// The tier's comings and goings.
#include "engine/nvme_keeper.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"

namespace kvferry::engine {
namespace {

tiers::IoBackend BackendOf(NvmeIo io) {
  switch (io) {
    case NvmeIo::kUring:
      return tiers::IoBackend::kUring;
    case NvmeIo::kThreads:
      return tiers::IoBackend::kThreads;
    case NvmeIo::kAuto:
      break;
  }
  return tiers::IoBackend::kAuto;
}

}  // namespace

NvmeKeeper::NvmeKeeper(const EngineOptions& options, MoverBell& bell)
    : options_(options), mover_bell_(bell), bell_(bell) {}

NvmeKeeper::~NvmeKeeper() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    work_came_.NotifyOne();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

Status NvmeKeeper::Open() {
  Result<OpenedNvme> opened = OpenNvmeTier(options_, bell_, {});
  if (opened.ok()) {
    opened_ = std::move(*opened);
  } else if (options_.nvme.is_required) {
    return opened.status();
  } else {
    last_reason_ = opened.status().ToString();
    LogWarning("NVMe tier: off: " + last_reason_);
  }
  thread_ = std::thread([this] { Work(); });
  return Status::Ok();
}

Status NvmeKeeper::Begin(EngineCore& core) {
  const bool is_open = opened_.drives != nullptr;
  Status attached = is_open ? Attach(core) : Status::Error(StatusCode::kUnavailable, last_reason_);
  if (attached.ok() || options_.nvme.is_required) {
    return attached;
  }
  try_at_ = Clock::now() + std::chrono::milliseconds(options_.nvme.probe_ms);
  return Status::Ok();
}

Status NvmeKeeper::Attach(EngineCore& core) {
  tiers::IoRingOptions ring;
  ring.backend = BackendOf(options_.nvme.io);
  ring.in_flight_max = options_.nvme.in_flight_max;
  Result<tiers::OpenedIoRing> made = tiers::OpenIoRing(opened_.drives->fds(), ring);
  Status status = made.status();
  if (made.ok()) {
    if (!made->warning.empty()) {
      LogWarning("NVMe tier: " + made->warning);
    }
    ring_ = std::move(made->ring);
    status = core.AttachNvme({*ring_, *opened_.manifest, opened_.store});
  }
  if (status.ok()) {
    mover_bell_.SleepIn(ring_.get());
    last_reason_.clear();
    const MutexLock lock(mutex_);
    to_watch_ = std::exchange(opened_.watch, std::nullopt);
    is_on_ = true;
    finding_.reset();
    work_came_.NotifyOne();
    return status;
  }
  last_reason_ = status.ToString();
  LogWarning("NVMe tier: off: " + last_reason_);
  Detach(core, Clock::now());
  return status;
}

// Nothing is in flight any more.
void NvmeKeeper::Detach(EngineCore& core, Instant now) {
  NvmePast past{.store = opened_.store.store, .file_systems = opened_.file_systems};
  if (core.nvme() != nullptr) {
    past.is_manifest_damaged = core.nvme()->is_manifest_damaged();
    core.DetachNvme();
  }
  mover_bell_.SleepIn(nullptr);
  ring_.reset();
  try_at_ = now + std::chrono::milliseconds(options_.nvme.probe_ms);
  const MutexLock lock(mutex_);
  is_on_ = false;
  to_close_ = std::exchange(opened_, {});
  past_ = std::move(past);
  work_came_.NotifyOne();
}

bool NvmeKeeper::IsFailing(EngineCore& core) {
  std::optional<tiers::StoreWatch::Finding> finding;
  {
    const MutexLock lock(mutex_);
    finding = std::exchange(finding_, std::nullopt);
  }
  const std::string before = last_reason_;
  if (finding) {
    last_reason_ = std::move(finding->what);
    core.LoseNvme(Status::Error(StatusCode::kUnavailable, last_reason_));
  } else if (last_reason_.empty() && !core.nvme()->failure().ok()) {
    last_reason_ = core.nvme()->failure().ToString();
  }
  if (last_reason_ != before) {
    LogWarning("NVMe tier: goes off: " + last_reason_ + "; it is tried again every " +
               std::to_string(options_.nvme.probe_ms) + " ms");
  }
  return !last_reason_.empty();
}

bool NvmeKeeper::Tend(EngineCore& core, Instant now) {
  if (core.nvme() != nullptr) {
    if (!IsFailing(core)) {
      return false;
    }
    core.StopNvme();
    if (!core.nvme()->is_quiet()) {
      return false;
    }
    Detach(core, now);
    return true;
  }
  if (now >= try_at_) {
    try_at_ = Instant::max();
    const MutexLock lock(mutex_);
    is_wanted_ = true;
    work_came_.NotifyOne();
    return true;
  }
  std::optional<Result<OpenedNvme>> result;
  {
    const MutexLock lock(mutex_);
    result = std::exchange(result_, std::nullopt);
  }
  if (!result) {
    return false;
  }
  if (!result->ok()) {
    const std::string reason = result->status().ToString();
    if (reason != last_reason_) {
      last_reason_ = reason;
      LogWarning("NVMe tier: still off: " + reason);
    }
    try_at_ = now + std::chrono::milliseconds(options_.nvme.probe_ms);
    return true;
  }
  opened_ = std::move(**result);
  if (opened_.is_made) {
    core.EndPersists(Status::Error(StatusCode::kUnavailable,
                                   "what was persisted before the NVMe tier went off is lost"));
  }
  if (Attach(core).ok()) {
    LogInfo("NVMe tier: on again");
  }
  return true;
}

void NvmeKeeper::End(EngineCore& core, bool is_stalled) {
  mover_bell_.SleepIn(nullptr);
  {
    const MutexLock lock(mutex_);
    is_on_ = false;
  }
  if (is_stalled) {
    LogWarning("NVMe tier: a drive does not answer; what it was told stays behind with its memory");
    static_cast<void>(ring_.release());
    static_cast<void>(opened_.manifest.release());
    static_cast<void>(opened_.drives.release());
    return;
  }
  if (core.nvme() != nullptr) {
    core.StopNvme();
    core.DetachNvme();
  }
  ring_.reset();
  opened_ = {};
}

void NvmeKeeper::WaitForWork() {
  const Duration pause =
      std::min<Duration>(kLookPause, std::chrono::milliseconds(options_.nvme.probe_ms));
  const Instant look_at = Clock::now() + pause;
  while (!to_close_ && !is_wanted_ && !is_ending_) {
    if (!is_on_) {
      work_came_.Wait(mutex_);
    } else if (Clock::now() < look_at) {
      work_came_.WaitUntil(mutex_, look_at);
    } else {
      return;
    }
  }
}

void NvmeKeeper::LookAtFiles() {
  tiers::StoreWatch::Finding found = watch_->Look();
  if (found.fate == tiers::StoreFate::kThere) {
    return;
  }
  {
    const MutexLock lock(mutex_);
    finding_ = std::move(found);  // Where the tier has gone off meanwhile, nobody asks.
  }
  mover_bell_.Ring();
}

// What became of the files tells what may be made in their place.
tiers::StoreFate NvmeKeeper::CloseAfterLook(OpenedNvme& to_close) {
  if (!watch_) {
    watch_ = std::move(to_close.watch);
  }
  const tiers::StoreFate fate = watch_ ? watch_->Look().fate : tiers::StoreFate::kThere;
  watch_.reset();
  to_close.manifest.reset();  // Before the drives, whose locks guard it.
  to_close = {};
  return fate;
}

void NvmeKeeper::Work() {
  while (true) {
    std::optional<OpenedNvme> to_close;
    bool is_wanted = false;
    NvmePast past;
    {
      const MutexLock lock(mutex_);
      WaitForWork();
      to_close = std::exchange(to_close_, std::nullopt);
      is_wanted = std::exchange(is_wanted_, false) && !is_ending_;
      past = past_;
      // Once: the next attempt may find what this one has made.
      past_.is_manifest_damaged = past.is_manifest_damaged && !is_wanted;
      if (to_watch_) {
        watch_ = std::exchange(to_watch_, std::nullopt);
      }
      if (is_ending_ && !to_close) {
        return;
      }
    }
    if (to_close) {
      past.fate = CloseAfterLook(*to_close);
      const MutexLock lock(mutex_);
      past_.fate = past.fate;
    } else if (watch_ && !is_wanted) {
      LookAtFiles();
      continue;
    }
    if (is_wanted) {
      Result<OpenedNvme> opened = OpenNvmeTier(options_, bell_, past);
      const MutexLock lock(mutex_);
      result_ = std::move(opened);
    }
    mover_bell_.Ring();
  }
}

}  // namespace kvferry::engine
