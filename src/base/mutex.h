// Mutex, MutexLock and ConditionVariable: the standard ones with clang's thread annotations.
#pragma once

#include <condition_variable>
#include <mutex>

#include "kvferry/types.h"

#include "base/thread_annotations.h"

namespace kvferry {

// Not recursive. Its place in the one lock order is in docs/architecture.md.
class KVFERRY_CAPABILITY("mutex") Mutex {
 public:
  void Lock() KVFERRY_ACQUIRE() { mutex_.lock(); }
  void Unlock() KVFERRY_RELEASE() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

// Holds a mutex for a scope.
class KVFERRY_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) KVFERRY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() KVFERRY_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits with a mutex that the caller holds; it is held again on return. Wakes without cause, so
// what was waited for is asked in a loop.
class ConditionVariable {
 public:
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }
  void Wait(Mutex& mutex) KVFERRY_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  void WaitUntil(Mutex& mutex, Instant deadline) KVFERRY_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_until(lock, deadline);
    lock.release();
  }

 private:
  std::condition_variable condition_;
};

}  // namespace kvferry
