// BoundedCompletionQueue: finished requests between the mover thread and one poller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kvferry/engine.h"

#include "base/mutex.h"

namespace kvferry::engine {

class BoundedCompletionQueue;

// Whose requests a queue is for.
class QueueOwner {
 public:
  virtual ~QueueOwner() = default;
  // The queue goes: all its requests are to end early, and their completions are for nobody.
  virtual void EndAllOf(const BoundedCompletionQueue& queue) = 0;
  // Nobody has heard, or will hear, of the end of this request.
  virtual void Discard(Ticket ticket) = 0;
};

// A request reserves its place when it is submitted, so Push always finds one.
//
// Thread-safe.
class BoundedCompletionQueue final : public CompletionQueue {
  struct Token {};  // Only Create can name it.

 public:
  static constexpr std::uint32_t kEntriesMax = std::uint32_t{1} << 20;

  // kInvalidArgument unless entries_max is 1 to kEntriesMax; kResourceExhausted without the memory.
  // The owner ends every reservation before it goes.
  static Result<std::unique_ptr<BoundedCompletionQueue>> Create(std::uint32_t entries_max,
                                                                std::weak_ptr<QueueOwner> owner);
  BoundedCompletionQueue(Token /*token*/,
                         std::uint32_t entries_max,
                         std::weak_ptr<QueueOwner> owner)
      : owner_(std::move(owner)), owner_address_(owner_.lock().get()), ring_(entries_max) {}
  BoundedCompletionQueue(const BoundedCompletionQueue&) = delete;
  BoundedCompletionQueue& operator=(const BoundedCompletionQueue&) = delete;
  // Has reservations that are left ended by their owner, waits for that, and tells the owner of
  // completions that nobody has polled.
  ~BoundedCompletionQueue() override;

  std::size_t Poll(std::span<Completion> completions) override;
  Status Wait(Instant deadline) override;
  void Wake() override;

  bool IsOf(const QueueOwner& owner) const noexcept { return owner_address_ == &owner; }
  // False: reserved and waiting completions have reached the bound.
  bool TryReserve();
  // Makes a reservation a completion.
  void Push(const Completion& completion) noexcept;

 private:
  std::weak_ptr<QueueOwner> owner_;
  // No other owner comes to this address while the queue knows the first one, if that was made with
  // its count of owners (make_shared).
  const QueueOwner* owner_address_;
  // Made beforehand, since whoever waits again and again should not allocate each time.
  const Status nothing_ended_ =
      Status::Error(StatusCode::kDeadlineExceeded, "nothing has ended by the deadline");
  const Status woken_ = Status::Error(StatusCode::kCancelled, "woken, and nothing has ended");
  Mutex mutex_;
  ConditionVariable condition_;
  std::vector<Completion> ring_ KVFERRY_GUARDED_BY(mutex_);
  std::size_t first_ KVFERRY_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ KVFERRY_GUARDED_BY(mutex_) = 0;
  std::size_t reserved_ KVFERRY_GUARDED_BY(mutex_) = 0;
  bool is_woken_ KVFERRY_GUARDED_BY(mutex_) = false;
};

}  // namespace kvferry::engine
