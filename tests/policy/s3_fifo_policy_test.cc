// S3-FIFO against the paper's algorithm, written down as it stands.
#include "policy/s3_fifo_policy.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/policy/live_owner.h"
#include "tests/policy/naive_comparison.h"
#include "tests/policy/shared_trace_counts.h"

namespace kvferry::policy {
namespace {

class NaiveS3Fifo {
 public:
  explicit NaiveS3Fifo(std::size_t capacity)
      : c_(capacity),
        small_max_(std::max<std::size_t>(1, capacity / 10)),
        main_max_(capacity - small_max_) {}

  void Access(std::uint32_t x) {
    if (frequency_.contains(x)) {
      frequency_[x] = std::min(frequency_[x] + 1, 3);
      return;
    }
    if (frequency_.size() == c_) {
      if (small_.size() >= small_max_ || main_.empty()) {
        EvictSmall();
      } else {
        EvictMain();
      }
    }
    const auto remembered = std::find(ghost_.begin(), ghost_.end(), x);
    if (remembered != ghost_.end()) {
      ghost_.erase(remembered);
      main_.push_front(x);
    } else {
      small_.push_front(x);
    }
    frequency_[x] = 0;
  }

  std::set<std::uint32_t> residents() const {
    std::set<std::uint32_t> all;
    for (const auto& [entry, frequency] : frequency_) {
      all.insert(entry);
    }
    return all;
  }

 private:
  using List = std::list<std::uint32_t>;

  void EvictSmall() {
    while (!small_.empty()) {
      const std::uint32_t t = small_.back();
      small_.pop_back();
      if (frequency_[t] <= 1) {
        frequency_.erase(t);
        ghost_.push_front(t);
        if (ghost_.size() > std::max<std::size_t>(1, main_max_)) {
          ghost_.pop_back();
        }
        return;
      }
      main_.push_front(t);
      frequency_[t] = 0;
      if (main_.size() > main_max_) {
        EvictMain();
        return;
      }
    }
    EvictMain();
  }

  void EvictMain() {
    while (true) {
      const std::uint32_t t = main_.back();
      main_.pop_back();
      if (frequency_[t] == 0) {
        frequency_.erase(t);
        return;
      }
      --frequency_[t];
      main_.push_front(t);
    }
  }

  std::size_t c_;
  std::size_t small_max_;
  std::size_t main_max_;
  List small_;
  List main_;
  List ghost_;
  std::map<std::uint32_t, int> frequency_;  // Of residents.
};

TEST(S3FifoPolicyTest, EqualsThePapersAlgorithmOnRandomTraces) {
  testing::ExpectEqualToNaiveOnRandomTraces<S3FifoPolicy, NaiveS3Fifo>();
}

TEST(S3FifoPolicyTest, HandsOutNoHeldBlockAndEveryNumberBack) {
  testing::ExpectLiveUseIsSound<S3FifoPolicy>();
}

// The counts of docs/policies-compared.md, which explains how they differ from libCacheSim's.
TEST(S3FifoPolicyTest, MissesOnThePublicTracesAsDocumented) {
  KVFERRY_REQUIRE_SHARED(testing::kConversation.file);
  KVFERRY_REQUIRE_SHARED(testing::kRagPulse.file);
  const replay::Trace conversation = testing::ReadShared(testing::kConversation);
  EXPECT_EQ(testing::BlockRuleMisses<S3FifoPolicy>(conversation, 1'828), 266'878U);
  EXPECT_EQ(testing::BlockRuleMisses<S3FifoPolicy>(conversation, 18'279), 217'651U);
  const replay::Trace ragpulse = testing::ReadShared(testing::kRagPulse);
  EXPECT_EQ(testing::BlockRuleMisses<S3FifoPolicy>(ragpulse, 1'644), 164'378U);
  EXPECT_EQ(testing::BlockRuleMisses<S3FifoPolicy>(ragpulse, 16'438), 164'378U);
}

}  // namespace
}  // namespace kvferry::policy
