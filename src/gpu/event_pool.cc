// The pool of events.
#include "gpu/event_pool.h"

#include <utility>

#include "base/assert.h"

namespace kvferry::gpu {

PooledEvent::PooledEvent(PooledEvent&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), index_(other.index_) {}

PooledEvent& PooledEvent::operator=(PooledEvent&& other) noexcept {
  if (this != &other) {
    GiveBack();
    pool_ = std::exchange(other.pool_, nullptr);
    index_ = other.index_;
  }
  return *this;
}

PooledEvent::~PooledEvent() {
  GiveBack();
}

void PooledEvent::GiveBack() noexcept {
  if (pool_ != nullptr) {
    pool_->free_.push_back(index_);  // Reserved for all of them, so this allocates nothing.
  }
}

Event& PooledEvent::operator*() const noexcept {
  return pool_->events_[index_];
}

Result<std::unique_ptr<EventPool>> EventPool::Create(Device& device, std::size_t capacity) {
  std::vector<Event> events;
  events.reserve(capacity);
  for (std::size_t i = 0; i < capacity; ++i) {
    KVFERRY_ASSIGN_OR_RETURN(Event event, Event::Create(device));
    events.push_back(std::move(event));
  }
  return std::make_unique<EventPool>(Token(), std::move(events));
}

EventPool::EventPool(Token /*token*/, std::vector<Event> events) : events_(std::move(events)) {
  free_.reserve(events_.size());
  for (std::size_t i = events_.size(); i > 0; --i) {
    free_.push_back(i - 1);
  }
}

EventPool::~EventPool() {
  KVFERRY_CHECK(free_.size() == events_.size());
}

Result<PooledEvent> EventPool::Take() {
  if (free_.empty()) {
    return Status::Error(StatusCode::kResourceExhausted, "all events of the pool are in use");
  }
  const std::size_t index = free_.back();
  free_.pop_back();
  return PooledEvent(*this, index);
}

}  // namespace kvferry::gpu
