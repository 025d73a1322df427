// ManualClock moves when told and never back; SteadyClock is the real one.
#include "base/clock.h"

#include <chrono>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

using std::chrono::seconds;

TEST(ManualClockTest, StandsUntilItIsMoved) {
  ManualClock clock(Instant(seconds(5)));
  EXPECT_EQ(clock.Now(), Instant(seconds(5)));

  clock.Advance(seconds(2));
  EXPECT_EQ(clock.Now(), Instant(seconds(7)));

  clock.MoveTo(Instant(seconds(7)));
  clock.MoveTo(Instant(seconds(9)));
  EXPECT_EQ(clock.Now(), Instant(seconds(9)));
}

// A time that goes back would break every "elapsed" computed from it.
TEST(ManualClockDeathTest, RefusesToGoBack) {
  ManualClock clock(Instant(seconds(5)));
  EXPECT_DEATH(clock.Advance(-seconds(1)), "by.count");
  EXPECT_DEATH(clock.MoveTo(Instant(seconds(4))), "before <= wanted");
}

TEST(SteadyClockTest, LiesBetweenTwoReadingsOfTheMachines) {
  const SteadyClock clock;
  const ClockSource& source = clock;
  const Instant before = Clock::now();
  const Instant now = source.Now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, Clock::now());
}

}  // namespace
}  // namespace kvferry
