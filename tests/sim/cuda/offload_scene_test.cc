// The schedules find planted ordering bugs by wrong bytes, and leave right programs alone.
#include "tests/sim/cuda/offload_scene.h"

#include <gtest/gtest.h>

#include "tests/support/sanitizers.h"

namespace kvferry::testing {
namespace {

sim::SimCudaOptions With(sim::CudaSchedule schedule, std::uint64_t seed) {
  sim::SimCudaOptions options;
  options.schedule = schedule;
  options.seed = seed;
  options.delay_us_max = 50;
  return options;
}

TEST(SimCudaOffloadTest, RightProgramIsRightUnderEverySchedule) {
  // A schedule that is not legal breaks it.
  using sim::CudaSchedule;
  EXPECT_TRUE(RunOffloadScene(PlantedBug::kNone, With(CudaSchedule::kEager, 1)));
  EXPECT_TRUE(RunOffloadScene(PlantedBug::kNone, With(CudaSchedule::kLazy, 1)));
  for (std::uint64_t seed = 1; seed <= Rounds(40); ++seed) {
    EXPECT_TRUE(RunOffloadScene(PlantedBug::kNone, With(CudaSchedule::kRandom, seed))) << seed;
    EXPECT_TRUE(RunOffloadScene(PlantedBug::kNone, With(CudaSchedule::kThreads, seed))) << seed;
  }
}

// What is planted here races by design; the thread sanitizer's part is in planted_bugs.cc.
#ifndef __SANITIZE_THREAD__

TEST(SimCudaOffloadTest, EagerScheduleHidesOrderingBugs) {
  // If it did not, the others would not be worth their code.
  for (int bug = 1; bug < kPlantedBugCount; ++bug) {
    EXPECT_TRUE(RunOffloadScene(static_cast<PlantedBug>(bug), With(sim::CudaSchedule::kEager, 1)))
        << bug;
  }
}

TEST(SimCudaOffloadTest, LazyScheduleFindsMissingWaits) {
  // Fails for a bug whose operations happen to run in a right order.
  for (const PlantedBug bug : {PlantedBug::kNoProducerWait, PlantedBug::kReusedTooEarly,
                               PlantedBug::kReadTooEarly, PlantedBug::kOverwrittenSource}) {
    EXPECT_FALSE(RunOffloadScene(bug, With(sim::CudaSchedule::kLazy, 1))) << static_cast<int>(bug);
  }
}

TEST(SimCudaOffloadTest, RandomScheduleFindsMissingWaitsInSomeSeeds) {
  // Fails if the random schedule only knows one order.
  for (const PlantedBug bug : {PlantedBug::kNoProducerWait, PlantedBug::kReusedTooEarly,
                               PlantedBug::kReadTooEarly, PlantedBug::kOverwrittenSource}) {
    int found = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      found += RunOffloadScene(bug, With(sim::CudaSchedule::kRandom, seed)) ? 0 : 1;
    }
    EXPECT_GT(found, 0) << static_cast<int>(bug);
  }
}

#endif

}  // namespace
}  // namespace kvferry::testing
