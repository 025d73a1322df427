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

// A comparison that never sees anything wrong would let every bug pass.
TEST(SimWorldDeathTest, WorkersThatCopyNothingAreFound) {
  EXPECT_DEATH(
      RunOnce({.seed = 7, .operations = 300, .faults = FaultLevel::kNone, .skips_copies = true}),
      "violation: seed 7, .*wrong bytes|violation: seed 7, .*have changed");
}

}  // namespace
}  // namespace kvferry::stress
