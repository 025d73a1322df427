// Copies in virtual time: not before they are due, each once, the same for the same seed.
#include "stress/sim_copy_workers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/test_blocks.h"

namespace kvferry::stress {
namespace {

using engine::CopyJob;

constexpr std::uint32_t kJobs = 20;
constexpr std::size_t kSize = 64;

class SimCopyWorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    jobs_.resize(kJobs);
    for (std::uint32_t i = 0; i < kJobs; ++i) {
      sources_.push_back(testing::BytesOf(i, kSize));
      targets_.emplace_back(kSize);
    }
    for (std::uint32_t i = 0; i < kJobs; ++i) {
      jobs_[i].owner = i;
      jobs_[i].piece_count = 1;
      jobs_[i].pieces[0].source = sources_[i].data();
      jobs_[i].pieces[0].target = targets_[i].data();
      jobs_[i].pieces[0].size_bytes = kSize;
    }
  }

  // Submits all and takes them back, moving the clock to each event; their owners in order.
  std::vector<std::uint32_t> RunAll(SimCopyWorkers& workers) {
    for (CopyJob& job : jobs_) {
      workers.Submit(job);
    }
    std::vector<std::uint32_t> order;
    std::array<CopyJob*, 3> done{};
    while (workers.in_flight() > 0) {
      clock_.MoveTo(std::max(clock_.Now(), workers.NextEventTime()));
      const std::size_t count = workers.Reap(clock_.Now(), done);
      EXPECT_GT(count, 0U);
      for (const CopyJob* job : std::span(done).first(count)) {
        order.push_back(job->owner);
      }
    }
    return order;
  }

  ManualClock clock_{Instant(std::chrono::seconds(1))};
  std::vector<CopyJob> jobs_;
  std::vector<std::vector<std::byte>> sources_;
  std::vector<std::vector<std::byte>> targets_;
};

TEST_F(SimCopyWorkersTest, GivesEachJobBackOnceWithItsBytes) {
  SimCopyWorkers workers(clock_, Random(1));

  std::vector<std::uint32_t> order = RunAll(workers);

  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));  // Workers are not in step.
  std::sort(order.begin(), order.end());
  for (std::uint32_t i = 0; i < kJobs; ++i) {
    ASSERT_EQ(order[i], i);
  }
  EXPECT_EQ(order.size(), kJobs);
  EXPECT_EQ(targets_, sources_);
  EXPECT_EQ(workers.NextEventTime(), Instant::max());
}

// Bytes that are there too early would hide a block that is published too early.
TEST_F(SimCopyWorkersTest, MovesNothingBeforeTheJobIsDueAndTaken) {
  SimCopyWorkers workers(clock_, Random(2));
  workers.Submit(jobs_[0]);
  const Instant due = workers.NextEventTime();
  ASSERT_GT(due, clock_.Now());
  std::array<CopyJob*, 1> done{};

  EXPECT_EQ(workers.Reap(due - Duration(1), done), 0U);
  clock_.MoveTo(due);
  EXPECT_NE(targets_[0], sources_[0]);
  EXPECT_EQ(workers.in_flight(), 1U);

  EXPECT_EQ(workers.Reap(due, done), 1U);
  EXPECT_EQ(targets_[0], sources_[0]);
}

TEST_F(SimCopyWorkersTest, RepeatsASeed) {
  SimCopyWorkers one(clock_, Random(3));
  SimCopyWorkers same(clock_, Random(3));
  SimCopyWorkers other(clock_, Random(4));

  const auto order = RunAll(one);

  EXPECT_EQ(RunAll(same), order);
  EXPECT_NE(RunAll(other), order);
}

// The simulation has to find workers that lie; they have to lie for that.
TEST_F(SimCopyWorkersTest, SaysThatItCopiedWhatItSkipped) {
  SimCopyWorkers workers(clock_, Random(5), true);

  EXPECT_EQ(RunAll(workers).size(), kJobs);

  EXPECT_EQ(targets_[0], std::vector<std::byte>(kSize));
  EXPECT_TRUE(jobs_[0].pieces[0].is_intact);
}

}  // namespace
}  // namespace kvferry::stress
