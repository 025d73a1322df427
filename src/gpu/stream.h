// Stream and Event: CUDA's, owned, and never the default stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvferry/status.h"

#include "gpu/device.h"

namespace kvferry::gpu {

// A point in a stream that others can wait for. Records no times.
//
// Move-only; moved-from is empty and may only be destroyed or assigned to. Thread-compatible.
class Event {
 public:
  static Result<Event> Create(Device& device);

  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  // Whether everything before the latest record is done; true if nothing was recorded. An error of
  // the device shows here late.
  Result<bool> is_done() const;
  // Blocks until then; no deadline of CUDA's own, so only for closing and for tests.
  Status Synchronize() const;

  cudaEvent_t native() const noexcept { return event_; }
  Device& device() const noexcept { return *device_; }

 private:
  Event(Device& device, cudaEvent_t event) : device_(&device), event_(event) {}
  void Destroy() noexcept;

  Device* device_;  // Null once moved from.
  cudaEvent_t event_;
};

// Write-back runs at the lowest, a demand onboard at the highest priority.
enum class StreamPriority : std::uint8_t { kLowest, kHighest };

// A queue of our own: non-blocking, so that it never waits for the legacy default stream. What it
// was given is done before its destructor returns.
//
// Move-only as Event is. Thread-compatible.
class Stream {
 public:
  static Result<Stream> Create(Device& device, StreamPriority priority);

  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  // One copy, in whichever direction the pointers say. Both ends stay untouched until an event
  // recorded behind it is done.
  Status Copy(void* target, const void* source, std::size_t size_bytes);
  // `rows` runs of `row_bytes`, each `*_step_bytes` after the one before.
  struct Rows {
    void* target = nullptr;
    std::size_t target_step_bytes = 0;
    const void* source = nullptr;
    std::size_t source_step_bytes = 0;
    std::size_t row_bytes = 0;
    std::size_t rows = 0;
  };
  Status CopyRows(const Rows& rows);
  Status Fill(void* target, unsigned char value, std::size_t size_bytes);

  // `event` then stands for everything queued here so far.
  Status Record(Event& event);
  // What is queued here from now on starts after `event`'s latest record. One that was never
  // recorded holds nothing up.
  Status WaitFor(const Event& event);
  Result<bool> is_idle() const;
  Status Synchronize() const;

  cudaStream_t native() const noexcept { return stream_; }
  Device& device() const noexcept { return *device_; }

 private:
  Stream(Device& device, cudaStream_t stream) : device_(&device), stream_(stream) {}
  void Destroy() noexcept;

  Device* device_;  // Null once moved from.
  cudaStream_t stream_;
};

}  // namespace kvferry::gpu
