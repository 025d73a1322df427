// The two clocks.
#include "base/clock.h"

#include <ctime>

#include "base/assert.h"

namespace kvferry {

Instant SteadyClock::Now() const noexcept {
  return Clock::now();
}

Instant ManualClock::Now() const noexcept {
  return Instant(Duration(now_.load()));
}

void ManualClock::Advance(Duration by) {
  KVFERRY_CHECK(by.count() >= 0);
  now_.fetch_add(by.count());
}

void ManualClock::MoveTo(Instant to) {
  const Duration::rep wanted = to.time_since_epoch().count();
  const Duration::rep before = now_.exchange(wanted);
  KVFERRY_CHECK(before <= wanted);
}

std::int64_t UnixMilliseconds() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000 + time.tv_nsec / 1'000'000;
}

}  // namespace kvferry
