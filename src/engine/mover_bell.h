// MoverBell: where a mover without a ring sleeps, and how others wake it.
#pragma once

#include "kvferry/types.h"

#include "base/mutex.h"

namespace kvferry::engine {

// Thread-safe; one thread waits.
class MoverBell {
 public:
  // Ends the current wait, or the next one if there is none.
  void Ring() {
    const MutexLock lock(mutex_);
    is_rung_ = true;
    condition_.NotifyOne();
  }
  // Until it is rung, or `deadline` has come.
  void WaitUntil(Instant deadline) {
    const MutexLock lock(mutex_);
    while (!is_rung_) {
      if (deadline == Instant::max()) {
        condition_.Wait(mutex_);
      } else if (Clock::now() >= deadline) {
        break;
      } else {
        condition_.WaitUntil(mutex_, deadline);
      }
    }
    is_rung_ = false;
  }

 private:
  Mutex mutex_;
  ConditionVariable condition_;
  bool is_rung_ KVFERRY_GUARDED_BY(mutex_) = false;
};

}  // namespace kvferry::engine
