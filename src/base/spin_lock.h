// SpinLock: for sections of some nanoseconds that a mutex would double.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/thread_annotations.h"

namespace kvferry {

// One atomic exchange to take and one store to let go, where a mutex needs two exchanges and two
// calls. Nothing that waits, allocates or calls out may happen under it. Whoever finds it taken for
// longer than such a section lasts gives its processor away: the holder may have lost its own.
//
// Not recursive. Its place in the one lock order is in docs/architecture.md.
class KVFERRY_CAPABILITY("mutex") SpinLock {
 public:
  void Lock() KVFERRY_ACQUIRE() {
    std::uint32_t turns = 0;
    while (is_taken_.exchange(true, std::memory_order_acquire)) {
      while (is_taken_.load(std::memory_order_relaxed)) {
        if (++turns % kTurnsMax == 0) {
          std::this_thread::yield();
        }
      }
    }
  }
  void Unlock() KVFERRY_RELEASE() { is_taken_.store(false, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kTurnsMax = 64;

  std::atomic<bool> is_taken_ = false;
};

// Holds a spin lock for a scope.
class KVFERRY_SCOPED_CAPABILITY SpinLockHolder {
 public:
  explicit SpinLockHolder(SpinLock& lock) KVFERRY_ACQUIRE(lock) : lock_(lock) { lock_.Lock(); }
  ~SpinLockHolder() KVFERRY_RELEASE() { lock_.Unlock(); }
  SpinLockHolder(const SpinLockHolder&) = delete;
  SpinLockHolder& operator=(const SpinLockHolder&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace kvferry
