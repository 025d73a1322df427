// EngineFront: the mover thread's loop, and how it ends.
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "engine/engine_front.h"

namespace kvferry::engine {
namespace {

// After the deadline of Close, for transfers to end.
constexpr Duration kLastWait = std::chrono::milliseconds(500);

}  // namespace

Status EngineFront::StartMover() {
  mover_ = std::thread([this] { RunMover(); });
  const MutexLock lock(mutex_);
  while (!has_begun_) {
    begun_.Wait(mutex_);
  }
  return *has_begun_;
}

void EngineFront::TellBegun(const Status& status) {
  const MutexLock lock(mutex_);
  has_begun_ = status;
  nvme_off_reason_ = nvme_ == nullptr ? std::string() : nvme_->reason();
  begun_.NotifyOne();
}

Status EngineFront::OpenDeviceIfWanted() {
  if (options_.hbm.mode == HbmMode::kOff) {
    return Status::Ok();
  }
  auto opened = OpenDevice(options_, seams_, slabs_->memory().bytes());
  if (opened.ok()) {
    device_ = std::move(*opened);
    core_->AttachDevice(*device_);
    return Status::Ok();
  }
  device_status_ = opened.status().WithContext("HBM tier");
  if (options_.hbm.is_required) {
    return device_status_;
  }
  LogWarning("HBM tier: off: " + opened.status().ToString());
  return Status::Ok();
}

// The GPU is opened and let go of on this thread, which works with it. The ring of the NVMe tier is
// made and given up here, since it belongs to this thread.
void EngineFront::RunMover() {
  Status begun = OpenDeviceIfWanted();
  if (begun.ok() && nvme_ != nullptr) {
    begun = nvme_->Begin(*core_);
    if (!begun.ok()) {
      nvme_->End(*core_, false);
    }
  }
  TellBegun(begun);
  if (begun.ok()) {
    MoveUntilClosed();
  }
  if (device_ != nullptr) {
    device_->End();
  }
  if (!begun.ok()) {
    return;
  }
  if (nvme_ != nullptr) {
    is_stalled_ = core_->nvme() != nullptr && !core_->nvme()->is_quiet();
    nvme_->End(*core_, is_stalled_);
  }
  if (core_->is_memory_in_doubt()) {
    slabs_->LeaveMapped();
  }
}

void EngineFront::MoveUntilClosed() {
  // What is not durable by then is given up; a drive that does not answer keeps nobody.
  const auto may_stop = [this] {
    return IsDone(Clock::now()) && (core_->is_idle() || HasWaitedLongEnough(Clock::now()));
  };
  while (!may_stop()) {
    const bool has_taken = TakeInbox();
    bool has_done = core_->Step(Clock::now());
    has_done = (nvme_ != nullptr && nvme_->Tend(*core_, Clock::now())) || has_done;
    if (has_taken || has_done) {
      Deliver();
      continue;
    }
    Instant wake = core_->next_deadline();
    if (nvme_ != nullptr) {
      wake = std::min(wake, nvme_->next_deadline());
    }
    {
      const MutexLock lock(mutex_);
      if (is_closing_) {
        wake = std::min(
            wake, closing_ == Closing::kNothing ? close_deadline_ + kLastWait : close_deadline_);
      }
    }
    bell_.WaitUntil(wake);
  }
}

void EngineFront::Deliver() {
  const EngineStats stats = core_->Stats();
  const MutexLock lock(mutex_);
  stats_ = stats;
  if (nvme_ != nullptr && nvme_off_reason_ != nvme_->reason()) {
    nvme_off_reason_ = nvme_->reason();
  }
  for (Ended& ended : ended_) {
    Slot& slot = slots_[ended.request];
    TakeBackIfErased(slot, ended);
    if (slot.is_abandoned) {
      ReleaseHandles(std::exchange(ended.first_handle, kNone));
    }
    Completion told = ended.completion;
    told.ticket = {ended.request, slot.generation};
    slot.first_handle = ended.first_handle;
    slot.handles = ended.first_handle == kNone ? 0 : told.blocks_ready;
    slot.state = ended.first_handle == kNone ? State::kFree : State::kHeld;
    if (slot.state == State::kFree) {
      free_.push_back(ended.request);
    }
    slot.queue->Push(told);
  }
  ended_.clear();
}

void EngineFront::TakeBackIfErased(const Slot& slot, Ended& ended) {
  if (slot.is_read && ended.completion.blocks_ready > 0 &&
      namespaces_.erasures(slot.in) != slot.erasures) {
    ReleaseHandles(ended.first_handle);
    ended.first_handle = kNone;
    ended.completion.blocks_ready = 0;
    ended.completion.next_missing = MissReason::kErased;
  }
}

bool EngineFront::TakeInbox() {
  {
    const MutexLock lock(mutex_);
    std::swap(inbox_, taken_);
    // A slot whose request has ended may have been given to another one, which nobody cancelled.
    std::size_t kept = 0;
    for (const std::uint32_t slot : taken_.cancels) {
      if (IsCancelWanted(slots_[slot])) {
        taken_.cancels[kept++] = slot;
      }
    }
    taken_.cancels.resize(kept);
  }
  const bool has_taken =
      !taken_.calls.empty() || !taken_.cancels.empty() || !taken_.releases.empty();
  // A cancel that follows its call in the inbox is meant for it.
  for (const auto& [request, call] : taken_.calls) {
    core_->Start(request, call);
    if (closing_ == Closing::kNothing ||
        (closing_ == Closing::kDemandOnly && call.kind == Call::Kind::kPrefetch)) {
      core_->EndEarly(request, StatusCode::kCancelled);
    }
  }
  for (const std::uint32_t request : taken_.cancels) {
    core_->EndEarly(request, StatusCode::kCancelled);
  }
  for (const std::uint32_t handle : taken_.releases) {
    core_->LetGo(handle);
  }
  taken_.calls.clear();
  taken_.cancels.clear();
  taken_.releases.clear();
  return has_taken;
}

bool EngineFront::IsDone(Instant now) {
  bool is_inbox_empty = false;
  Closing wanted = Closing::kNo;
  {
    const MutexLock lock(mutex_);
    is_inbox_empty = inbox_.calls.empty() && inbox_.releases.empty();
    if (is_closing_) {
      wanted = now < close_deadline_ ? Closing::kDemandOnly : Closing::kNothing;
    }
  }
  if (wanted == Closing::kNo) {
    return false;
  }
  if (wanted != closing_) {
    if (closing_ == Closing::kNo) {
      core_->StopOffloads();
    }
    closing_ = wanted;
    core_->EndForClose(wanted == Closing::kDemandOnly);
  }
  return is_inbox_empty && core_->unfinished() == 0;
}

bool EngineFront::HasWaitedLongEnough(Instant now) {
  const MutexLock lock(mutex_);
  // Copies of this process always end, and are waited for.
  return now >= close_deadline_ + kLastWait && core_->copies_in_flight() == 0;
}

Status EngineFront::Close() {
  const MutexLock closing(close_mutex_);
  {
    const MutexLock lock(mutex_);
    if (!is_closing_) {
      is_closing_ = true;
      close_deadline_ = Clock::now() + std::chrono::milliseconds(options_.close_deadline_ms);
    }
  }
  if (!mover_.joinable()) {
    return Status::Ok();  // Closed before, or never started.
  }
  bell_.Ring();
  mover_.join();
  nvme_.reset();
  // Blocks of Pins that nobody collected.
  const MutexLock lock(mutex_);
  for (Slot& slot : slots_) {
    if (slot.state == State::kHeld) {
      slot.state = State::kFree;
    }
  }
  return Status::Ok();
}

}  // namespace kvferry::engine
