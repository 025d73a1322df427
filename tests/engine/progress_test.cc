// Pools that are far too small: whoever asks has an end in time, whatever the drive does.
#include <cstdint>

#include <gtest/gtest.h>

#include "stress/sim_world.h"
#include "tests/support/sanitizers.h"

namespace kvferry::stress {
namespace {

constexpr std::uint32_t kOperations = testing::Rounds(200);

// The world stops the process when a request ends later than 100 ms past its deadline, and when
// requests are open though nothing will ever happen.
SimOutcome RunAll(FaultLevel faults) {
  SimOutcome sums;
  for (std::uint32_t residents = 1; residents <= 8; ++residents) {
    for (std::uint32_t callers = 1; callers <= 16; ++callers) {
      SimProgress progress;
      SimWorld world({.seed = residents * 100 + callers,
                      .operations = kOperations,
                      .faults = faults,
                      .residents_max = residents,
                      .callers = callers});
      const SimOutcome outcome = world.Run(progress);
      sums.counts += outcome.counts;
      sums.faults += outcome.faults;
    }
  }
  return sums;
}

// A caller that waits for a block that waits for the caller.
TEST(EngineProgressTest, EachCallEndsInTimeWithOneToEightBlocksAndSixteenCallers) {
  const SimCounts sums = RunAll(FaultLevel::kNone).counts;

  EXPECT_EQ(sums.operations, 128U * kOperations);
  EXPECT_GT(sums.evictions, testing::Rounds(1'000));
  EXPECT_GT(sums.deadlines_missed, 0U);
}

// A place in memory that a failed or endless transfer keeps for ever.
TEST(EngineProgressTest, EachCallEndsInTimeWhileTheDriveFails) {
  const SimOutcome sums = RunAll(FaultLevel::kHostile);

  EXPECT_EQ(sums.counts.operations, 128U * kOperations);
  EXPECT_GT(sums.counts.offloads, testing::Rounds(100));
  EXPECT_GT(sums.faults.total(), testing::Rounds(100));
  if (testing::Rounds(2) == 2) {  // Wrong bytes that somebody reads are rare among the faults.
    EXPECT_GT(sums.counts.failed_checks, 0U);
  }
}

}  // namespace
}  // namespace kvferry::stress
