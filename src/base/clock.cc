// The two clocks.
#include "base/clock.h"

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

}  // namespace kvferry
