// W-TinyLFU against window, segmented LRU and counts written down plainly.
#include "policy/w_tinylfu_policy.h"

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

class NaiveWTinyLfu {
 public:
  explicit NaiveWTinyLfu(std::size_t capacity)
      : c_(capacity),
        window_max_(std::max<std::size_t>(1, capacity / 100)),
        protected_max_((capacity - window_max_) * 4 / 5) {}

  void Access(std::uint32_t x) {
    Count(x);
    if (Contains(window_, x)) {
      window_.remove(x);
      window_.push_front(x);
      return;
    }
    if (Contains(probation_, x) || Contains(protected_, x)) {
      probation_.remove(x);
      protected_.remove(x);
      protected_.push_front(x);
      if (protected_.size() > protected_max_) {
        probation_.push_front(protected_.back());
        protected_.pop_back();
      }
      return;
    }
    // The newcomer enters the window first; what it pushes out has to earn a place.
    departed_.remove(x);
    window_.push_front(x);
    if (window_.size() <= window_max_) {
      return;
    }
    const std::uint32_t candidate = window_.back();
    window_.pop_back();
    if (window_.size() + probation_.size() + protected_.size() < c_) {
      probation_.push_front(candidate);
      return;
    }
    List& victims = probation_.empty() ? protected_ : probation_;
    if (!victims.empty() && count_[candidate] > count_[victims.back()]) {
      Depart(victims.back());
      victims.pop_back();
      probation_.push_front(candidate);
      return;
    }
    Depart(candidate);
  }

  std::set<std::uint32_t> residents() const {
    std::set<std::uint32_t> all(window_.begin(), window_.end());
    all.insert(probation_.begin(), probation_.end());
    all.insert(protected_.begin(), protected_.end());
    return all;
  }

 private:
  using List = std::list<std::uint32_t>;

  static bool Contains(const List& list, std::uint32_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  }

  void Count(std::uint32_t x) {
    count_[x] = std::min(count_[x] + 1, 15U);
    if (++sampled_ == 10 * c_) {
      for (auto& [entry, count] : count_) {
        count /= 2;
      }
      sampled_ /= 2;
    }
  }

  void Depart(std::uint32_t x) {
    departed_.push_front(x);
    if (departed_.size() > 10 * c_) {
      count_.erase(departed_.back());
      departed_.pop_back();
    }
  }

  std::size_t c_;
  std::size_t window_max_;
  std::size_t protected_max_;
  std::size_t sampled_ = 0;
  List window_;
  List probation_;
  List protected_;
  List departed_;
  std::map<std::uint32_t, std::uint32_t> count_;
};

TEST(WTinyLfuPolicyTest, EqualsWindowSegmentsAndCountsOnRandomTraces) {
  testing::ExpectEqualToNaiveOnRandomTraces<WTinyLfuPolicy, NaiveWTinyLfu>();
}

TEST(WTinyLfuPolicyTest, HandsOutNoHeldBlockAndEveryNumberBack) {
  testing::ExpectLiveUseIsSound<WTinyLfuPolicy>();
}

// The counts of docs/policies-compared.md, which explains how they differ from libCacheSim's.
TEST(WTinyLfuPolicyTest, MissesOnThePublicTracesAsDocumented) {
  KVFERRY_REQUIRE_SHARED(testing::kConversation.file);
  KVFERRY_REQUIRE_SHARED(testing::kRagPulse.file);
  const replay::Trace conversation = testing::ReadShared(testing::kConversation);
  EXPECT_EQ(testing::BlockRuleMisses<WTinyLfuPolicy>(conversation, 1'828), 263'124U);
  EXPECT_EQ(testing::BlockRuleMisses<WTinyLfuPolicy>(conversation, 18'279), 229'735U);
  const replay::Trace ragpulse = testing::ReadShared(testing::kRagPulse);
  EXPECT_EQ(testing::BlockRuleMisses<WTinyLfuPolicy>(ragpulse, 1'644), 164'648U);
  EXPECT_EQ(testing::BlockRuleMisses<WTinyLfuPolicy>(ragpulse, 16'438), 164'394U);
}

}  // namespace
}  // namespace kvferry::policy
