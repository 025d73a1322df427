// EventPool: a fixed number of events, taken and given back instead of created.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "kvferry/status.h"

#include "gpu/stream.h"

namespace kvferry::gpu {

class EventPool;

// An event of a pool, which has it back when this is destroyed; its pool must outlive it.
//
// Move-only; moved-from is empty. Thread-confined as its pool.
class PooledEvent {
 public:
  PooledEvent(PooledEvent&& other) noexcept;
  PooledEvent& operator=(PooledEvent&& other) noexcept;
  PooledEvent(const PooledEvent&) = delete;
  PooledEvent& operator=(const PooledEvent&) = delete;
  ~PooledEvent();

  Event& operator*() const noexcept;
  Event* operator->() const noexcept { return &**this; }

 private:
  friend class EventPool;
  PooledEvent(EventPool& pool, std::size_t index) : pool_(&pool), index_(index) {}
  void GiveBack() noexcept;

  EventPool* pool_;
  std::size_t index_;
};

// All events are created at once; an empty pool is back-pressure, never growth. An event that comes
// back may still be recorded somewhere: a wait that was queued for it keeps its meaning, since CUDA
// binds a wait to the record at the time of the call.
//
// Thread-confined to the thread that uses it. Nothing may be taken when it is destroyed.
class EventPool {
 public:
  class Token {
    friend class EventPool;
    Token() = default;
  };

  static Result<std::unique_ptr<EventPool>> Create(Device& device, std::size_t capacity);

  EventPool(Token token, std::vector<Event> events);
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // kResourceExhausted if all are taken. It stands for nothing before it is recorded anew.
  Result<PooledEvent> Take();
  std::size_t free_count() const noexcept { return free_.size(); }

 private:
  friend class PooledEvent;
  std::vector<Event> events_;
  std::vector<std::size_t> free_;
};

}  // namespace kvferry::gpu
