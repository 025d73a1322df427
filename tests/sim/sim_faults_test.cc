// SimFaults: odds and weights are kept, and each fault befalls only what it can.
#include "sim/sim_faults.h"

#include <set>

#include <gtest/gtest.h>

namespace kvferry::sim {
namespace {

TEST(SimFaultsTest, DrawsAsOftenAsItsOddsSay) {
  const SimFaults faults = SimFaults::Hostile();
  Random random(1);
  int drawn = 0;
  for (int i = 0; i < 32'000; ++i) {
    drawn += faults.Draw(SimTarget::kWrite, random).has_value() ? 1 : 0;
  }
  EXPECT_NEAR(drawn, 1000, 150);
}

TEST(SimFaultsTest, DrawsNothingOnItsOwn) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(SimFaults::None().Draw(SimTarget::kRead, random).has_value());
  }
}

TEST(SimFaultsTest, DrawsOnlyWhatCanBefallTheTarget) {
  SimFaults faults = SimFaults::Hostile().Without(SimFault::kReadError);
  faults.odds = 1;
  Random random(1);
  std::set<SimFault> drawn;
  for (int i = 0; i < 2000; ++i) {
    drawn.insert(faults.Draw(SimTarget::kRead, random).value());
  }
  for (const SimFault fault : AllSimFaults()) {
    const bool is_wanted = Befalls(fault, SimTarget::kRead) && fault != SimFault::kReadError;
    EXPECT_EQ(drawn.contains(fault), is_wanted) << ToString(fault);
  }
}

TEST(SimFaultsTest, DrawsTheOnlyOneOrNone) {
  const SimFaults faults = SimFaults::Only(SimFault::kLostWrite, 1);
  Random random(1);
  EXPECT_EQ(faults.Draw(SimTarget::kWrite, random), SimFault::kLostWrite);
  EXPECT_EQ(faults.Draw(SimTarget::kRead, random), std::nullopt);
}

TEST(FaultCountsTest, NamesWhatHappened) {
  FaultCounts counts;
  EXPECT_EQ(counts.ToString(), "none");
  counts.Add(SimFault::kLate);
  counts.Add(SimFault::kReadError);
  FaultCounts more;
  more.Add(SimFault::kLate);
  counts += more;
  EXPECT_EQ(counts.ToString(), "read error 1, late 2");
  EXPECT_EQ(counts.total(), 3);
}

}  // namespace
}  // namespace kvferry::sim
