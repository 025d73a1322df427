// CallerEvents: events that callers' threads record in their own streams, for ours to wait for.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "kvferry/status.h"

#include "base/mutex.h"
#include "gpu/event_pool.h"

namespace kvferry::gpu {

class CallerEvents;

// What a caller's stream had been given when it was recorded. Gives its event back when destroyed,
// on any thread; its pool must outlive it.
//
// Move-only; moved-from is empty and may only be destroyed or assigned to. Thread-compatible.
class CallerEvent {
 public:
  CallerEvent(CallerEvent&& other) noexcept;
  CallerEvent& operator=(CallerEvent&& other) noexcept;
  CallerEvent(const CallerEvent&) = delete;
  CallerEvent& operator=(const CallerEvent&) = delete;
  ~CallerEvent() { GiveBack(); }

  const Event& operator*() const noexcept { return **event_; }

 private:
  friend class CallerEvents;
  CallerEvent(CallerEvents& owner, PooledEvent event) : owner_(&owner), event_(std::move(event)) {}
  void GiveBack() noexcept;

  CallerEvents* owner_;
  std::optional<PooledEvent> event_;
};

// A fixed number of events for all callers of an engine together.
//
// Thread-safe, but for construction and destruction; nothing may be taken then.
class CallerEvents {
 public:
  class Token {
    friend class CallerEvents;
    Token() = default;
  };

  static Result<std::unique_ptr<CallerEvents>> Create(Device& device, std::size_t capacity);

  CallerEvents(Token /*token*/, std::unique_ptr<EventPool> pool) : pool_(std::move(pool)) {}
  ~CallerEvents() = default;
  CallerEvents(const CallerEvents&) = delete;
  CallerEvents& operator=(const CallerEvents&) = delete;

  // On the thread that works with `stream`: the event stands for what was queued there so far. As
  // RecordCallerStream, and kResourceExhausted if all events are taken.
  Result<CallerEvent> Record(cudaStream_t stream) KVFERRY_EXCLUDES(mutex_);

 private:
  friend class CallerEvent;

  Mutex mutex_;
  std::unique_ptr<EventPool> pool_ KVFERRY_GUARDED_BY(mutex_);
};

}  // namespace kvferry::gpu
