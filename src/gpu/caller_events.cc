// The pool of callers' events, behind a lock.
#include "gpu/caller_events.h"

#include <utility>

#include "gpu/caller_stream.h"

namespace kvferry::gpu {

CallerEvent::CallerEvent(CallerEvent&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), event_(std::move(other.event_)) {
  other.event_.reset();
}

CallerEvent& CallerEvent::operator=(CallerEvent&& other) noexcept {
  if (this != &other) {
    GiveBack();
    owner_ = std::exchange(other.owner_, nullptr);
    event_ = std::move(other.event_);
    other.event_.reset();
  }
  return *this;
}

void CallerEvent::GiveBack() noexcept {
  if (owner_ != nullptr) {
    const MutexLock lock(owner_->mutex_);
    event_.reset();
  }
}

Result<std::unique_ptr<CallerEvents>> CallerEvents::Create(Device& device, std::size_t capacity) {
  KVFERRY_ASSIGN_OR_RETURN(std::unique_ptr<EventPool> pool, EventPool::Create(device, capacity));
  return std::make_unique<CallerEvents>(Token(), std::move(pool));
}

Result<CallerEvent> CallerEvents::Record(cudaStream_t stream) {
  const MutexLock lock(mutex_);
  KVFERRY_ASSIGN_OR_RETURN(PooledEvent event, pool_->Take());
  KVFERRY_RETURN_IF_ERROR(RecordCallerStream(*event, stream));
  return CallerEvent(*this, std::move(event));
}

}  // namespace kvferry::gpu
