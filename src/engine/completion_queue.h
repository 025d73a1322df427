// BoundedCompletionQueue: finished requests between the mover thread and one poller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/engine.h"

#include "base/mutex.h"

namespace kvferry::engine {

// A request reserves its place when it is submitted, so Push always finds one.
//
// Thread-safe.
class BoundedCompletionQueue final : public CompletionQueue {
  struct Token {};  // Only Create can name it.

 public:
  static constexpr std::uint32_t kEntriesMax = std::uint32_t{1} << 20;

  // kInvalidArgument unless entries_max is 1 to kEntriesMax; kResourceExhausted without the memory.
  static Result<std::unique_ptr<BoundedCompletionQueue>> Create(std::uint32_t entries_max);
  BoundedCompletionQueue(Token /*token*/, std::uint32_t entries_max) : ring_(entries_max) {}
  BoundedCompletionQueue(const BoundedCompletionQueue&) = delete;
  BoundedCompletionQueue& operator=(const BoundedCompletionQueue&) = delete;
  ~BoundedCompletionQueue() override;  // No reservation may be left.

  std::size_t Poll(std::span<Completion> completions) override;
  Status Wait(Instant deadline) override;

  // False: reserved and waiting completions have reached the bound.
  bool TryReserve();
  // Makes a reservation a completion.
  void Push(const Completion& completion) noexcept;

 private:
  // Made beforehand, since whoever waits again and again should not allocate each time.
  const Status nothing_ended_ =
      Status::Error(StatusCode::kDeadlineExceeded, "nothing has ended by the deadline");
  Mutex mutex_;
  ConditionVariable condition_;
  std::vector<Completion> ring_ KVFERRY_GUARDED_BY(mutex_);
  std::size_t first_ KVFERRY_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ KVFERRY_GUARDED_BY(mutex_) = 0;
  std::size_t reserved_ KVFERRY_GUARDED_BY(mutex_) = 0;
};

}  // namespace kvferry::engine
