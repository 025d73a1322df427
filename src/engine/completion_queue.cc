// A ring of completions under one lock.
#include "engine/completion_queue.h"

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <utility>

#include "base/assert.h"

namespace kvferry::engine {

Result<std::unique_ptr<BoundedCompletionQueue>> BoundedCompletionQueue::Create(
    std::uint32_t entries_max, std::weak_ptr<QueueOwner> owner) {
  if (entries_max == 0 || entries_max > kEntriesMax) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "a completion queue has 1 to " + std::to_string(kEntriesMax) +
                             " entries, not " + std::to_string(entries_max));
  }
  try {
    return std::make_unique<BoundedCompletionQueue>(Token(), entries_max, std::move(owner));
  } catch (const std::bad_alloc&) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory for a completion queue of " +
                                                             std::to_string(entries_max) +
                                                             " entries; create it with fewer");
  }
}

BoundedCompletionQueue::~BoundedCompletionQueue() {
  // None: the owner has ended everything before it went.
  const std::shared_ptr<QueueOwner> owner = owner_.lock();
  {
    const MutexLock lock(mutex_);
    KVFERRY_CHECK(owner != nullptr || reserved_ == 0);
    if (owner == nullptr || reserved_ + waiting_ == 0) {
      return;
    }
  }
  owner->EndAllOf(*this);
  {
    const MutexLock lock(mutex_);
    while (reserved_ > 0) {
      condition_.Wait(mutex_);
    }
  }
  std::array<Completion, 1> untold;
  while (BoundedCompletionQueue::Poll(untold) > 0) {
    owner->Discard(untold.front().ticket);
  }
}

bool BoundedCompletionQueue::TryReserve() {
  const MutexLock lock(mutex_);
  if (reserved_ + waiting_ == ring_.size()) {
    return false;
  }
  ++reserved_;
  return true;
}

void BoundedCompletionQueue::Push(const Completion& completion) noexcept {
  const MutexLock lock(mutex_);
  KVFERRY_CHECK(reserved_ > 0);
  --reserved_;
  ring_[(first_ + waiting_) % ring_.size()] = completion;
  ++waiting_;
  // With the lock: the poller may destroy the queue as soon as it has polled this one.
  condition_.NotifyAll();
}

std::size_t BoundedCompletionQueue::Poll(std::span<Completion> completions) {
  const MutexLock lock(mutex_);
  const std::size_t count = std::min(completions.size(), waiting_);
  for (std::size_t i = 0; i < count; ++i) {
    completions[i] = std::exchange(ring_[first_], {});
    first_ = (first_ + 1) % ring_.size();
  }
  waiting_ -= count;
  return count;
}

Status BoundedCompletionQueue::Wait(Instant deadline) {
  const MutexLock lock(mutex_);
  while (waiting_ == 0) {
    if (std::exchange(is_woken_, false)) {
      return woken_;
    }
    if (Clock::now() >= deadline) {
      return nothing_ended_;
    }
    condition_.WaitUntil(mutex_, deadline);
  }
  return Status::Ok();
}

void BoundedCompletionQueue::Wake() {
  const MutexLock lock(mutex_);
  is_woken_ = true;
  condition_.NotifyAll();
}

}  // namespace kvferry::engine
