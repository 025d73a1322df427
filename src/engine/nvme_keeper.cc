// The tier's comings and goings.
#include "engine/nvme_keeper.h"

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
  to_close_ = std::exchange(opened_, {});
  past_ = past;
  work_came_.NotifyOne();
}

bool NvmeKeeper::Tend(EngineCore& core, Instant now) {
  if (core.nvme() != nullptr) {
    if (core.nvme()->failure().ok()) {
      return false;
    }
    if (last_reason_.empty()) {
      last_reason_ = core.nvme()->failure().ToString();
      LogWarning("NVMe tier: goes off: " + last_reason_ + "; it is tried again every " +
                 std::to_string(options_.nvme.probe_ms) + " ms");
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
  if (Attach(core).ok()) {
    LogInfo("NVMe tier: on again");
  }
  return true;
}

void NvmeKeeper::End(EngineCore& core, bool is_stalled) {
  mover_bell_.SleepIn(nullptr);
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

void NvmeKeeper::Work() {
  while (true) {
    std::optional<OpenedNvme> to_close;
    bool is_wanted = false;
    NvmePast past;
    {
      const MutexLock lock(mutex_);
      while (!to_close_ && !is_wanted_ && !is_ending_) {
        work_came_.Wait(mutex_);
      }
      to_close = std::exchange(to_close_, std::nullopt);
      is_wanted = std::exchange(is_wanted_, false) && !is_ending_;
      past = past_;
      // Once: the next attempt may find what this one has made.
      past_.is_manifest_damaged = past.is_manifest_damaged && !is_wanted;
      if (!to_close && !is_wanted) {
        return;
      }
    }
    if (to_close) {
      to_close->manifest.reset();  // Before the drives, whose locks guard it.
      to_close.reset();
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
