// MoverBell: where the mover sleeps, and how others wake it.
#pragma once

#include <algorithm>
#include <chrono>

#include "kvferry/types.h"

#include "base/mutex.h"
#include "tiers/nvme/io_ring.h"

namespace kvferry::engine {

// Thread-safe; one thread waits, and that one alone calls SleepIn.
class MoverBell {
 public:
  // Ends the current wait, or the next one if there is none.
  void Ring() {
    const MutexLock lock(mutex_);
    is_rung_ = true;
    if (sleeps_in_ != nullptr) {
      sleeps_in_->Wake();
    } else {
      condition_.NotifyOne();
    }
  }

  // The mover waits in this ring from now on, whose ends wake it as well; null: in none. Borrowed.
  void SleepIn(tiers::IoRing* ring) { ring_ = ring; }

  // Until it is rung, or `deadline` has come; in a ring it may return early.
  void WaitUntil(Instant deadline) {
    if (ring_ == nullptr) {
      WaitByItself(deadline);
      return;
    }
    {
      const MutexLock lock(mutex_);
      if (is_rung_) {
        is_rung_ = false;
        return;
      }
      sleeps_in_ = ring_;
    }
    ring_->WaitUntil(std::min(deadline, Clock::now() + kLongestSleep));
    const MutexLock lock(mutex_);
    sleeps_in_ = nullptr;
    is_rung_ = false;
  }

 private:
  static constexpr Duration kLongestSleep = std::chrono::seconds(60);

  void WaitByItself(Instant deadline) {
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

  tiers::IoRing* ring_ = nullptr;  // The waiting thread's.
  Mutex mutex_;
  ConditionVariable condition_;
  tiers::IoRing* sleeps_in_ KVFERRY_GUARDED_BY(mutex_) = nullptr;
  bool is_rung_ KVFERRY_GUARDED_BY(mutex_) = false;
};

}  // namespace kvferry::engine
