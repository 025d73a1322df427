// ClockSource: where the time comes from; the real clock, and one that tests and replays move.
#pragma once

#include <atomic>
#include <cstdint>

#include "kvferry/types.h"

namespace kvferry {

// Tells a time that never goes back. Whoever needs the time takes one of these as an argument.
//
// Thread-safe, as are all its forms.
class ClockSource {
 public:
  virtual ~ClockSource() = default;
  virtual Instant Now() const noexcept = 0;
};

// The machine's steady clock.
class SteadyClock final : public ClockSource {
 public:
  Instant Now() const noexcept override;
};

// Wall clock time, for people: the age of things, in milliseconds since 1970. It may jump.
std::int64_t UnixMilliseconds() noexcept;

// Stands still until it is told to move. What one thread sees of others' work after reading a time
// is what they did before they moved the clock to it.
class ManualClock final : public ClockSource {
 public:
  explicit ManualClock(Instant start = Instant()) : now_(start.time_since_epoch().count()) {}

  Instant Now() const noexcept override;
  // By at least nothing; a clock that would go back stops the process.
  void Advance(Duration by);
  // To a time that is not before Now().
  void MoveTo(Instant to);

 private:
  std::atomic<Duration::rep> now_;
};

}  // namespace kvferry
