// Runs of the simulation: the same again from the same seed, and one that must not pass.
#include "stress/sim_world.h"

#include <gtest/gtest.h>

namespace kvferry::stress {
namespace {

SimOutcome RunOnce(const SimOptions& options) {
  SimProgress progress;
  return SimWorld(options).Run(progress);
}

// A seed that shows something else the next time proves nothing.
TEST(SimWorldTest, OneSeedGivesOneRun) {
  const SimOutcome first = RunOnce({.seed = 7, .operations = 300});
  const SimOutcome again = RunOnce({.seed = 7, .operations = 300});
  const SimOutcome other = RunOnce({.seed = 8, .operations = 300});

  EXPECT_EQ(first.digest, again.digest);
  EXPECT_EQ(first.counts.steps, again.counts.steps);
  EXPECT_NE(first.digest, other.digest);
  EXPECT_GT(first.counts.blocks_compared, 0U);
}

// What never happens in any run is not tested by it.
TEST(SimWorldTest, MeetsKeysOfAnotherNamespace) {
  SimCounts counts;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    counts += RunOnce({.seed = seed, .operations = 500}).counts;
  }

  EXPECT_GT(counts.other_namespace, 0U);
}

// A sweep over operations of which none is reached would prove nothing.
TEST(SimWorldTest, TheOperationThatIsNamedMeetsItsFault) {
  SimOptions options;
  options.operations = 100;
  options.faults = FaultLevel::kNone;
  options.is_script = true;
  const SimOutcome whole = RunOnce(options);
  ASSERT_GT(whole.counts.drive_operations, 10U);
  EXPECT_EQ(whole.faults.total(), 0U);

  options.nth_fault = NthFault{10, false, sim::SimFault::kLate, false};
  EXPECT_EQ(RunOnce(options).faults.of(sim::SimFault::kLate), 1U);
  options.nth_fault = NthFault{2, true, sim::SimFault::kBatchError, false};
  EXPECT_EQ(RunOnce(options).faults.of(sim::SimFault::kBatchError), 1U);
  options.nth_fault = NthFault{10, false, sim::SimFault::kLate, true};
  EXPECT_GT(RunOnce(options).faults.of(sim::SimFault::kLate), 1U);
}

// Quarantine used to take all segments but one, in which persisted blocks then had nowhere to move
// to: the engine was never at rest, and stored nothing any more.
TEST(SimWorldTest, SegmentsThatGoOnFailingLeaveRoomToMove) {
  SimOptions options;
  options.operations = 800;
  options.faults = FaultLevel::kNone;
  options.is_script = true;
  for (const NthFault& fault : {NthFault{7, false, sim::SimFault::kReadError, true},
                                NthFault{82, false, sim::SimFault::kReadError, true},
                                NthFault{249, false, sim::SimFault::kStaleRead, true}}) {
    options.nth_fault = fault;
    EXPECT_GT(RunOnce(options).faults.of(fault.fault), 0U);
  }
}

// A comparison that never sees anything wrong would let every bug pass.
TEST(SimWorldDeathTest, WorkersThatCopyNothingAreFound) {
  EXPECT_DEATH(
      RunOnce({.seed = 7, .operations = 300, .faults = FaultLevel::kNone, .skips_copies = true}),
      "violation: seed 7, .*wrong bytes|violation: seed 7, .*have changed");
}

}  // namespace
}  // namespace kvferry::stress
