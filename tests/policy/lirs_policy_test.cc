// LIRS against the paper's description of its stack and queue, written down plainly.
#include "policy/lirs_policy.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <set>

#include <gtest/gtest.h>

#include "tests/policy/live_owner.h"
#include "tests/policy/naive_comparison.h"
#include "tests/policy/shared_trace_counts.h"

namespace kvferry::policy {
namespace {

// The stack's front is its top, the queue's front the next to go.
class NaiveLirs {
 public:
  explicit NaiveLirs(std::size_t capacity)
      : c_(capacity), lir_max_(capacity - std::max<std::size_t>(1, capacity / 100)) {}

  void Access(std::uint32_t x) {
    if (lir_.contains(x)) {
      stack_.remove(x);
      stack_.push_front(x);
      Prune();
      return;
    }
    if (Contains(queue_, x)) {
      queue_.remove(x);
      if (Contains(stack_, x)) {
        BecomeLir(x);
        return;
      }
      stack_.push_front(x);
      queue_.push_back(x);
      Prune();
      return;
    }
    if (lir_.size() + queue_.size() == c_) {
      const std::uint32_t victim = queue_.front();
      queue_.pop_front();
      if (Contains(stack_, victim)) {
        evicted_.push_back(victim);
        if (evicted_.size() > 2 * c_) {
          stack_.remove(evicted_.front());
          evicted_.pop_front();
        }
      }
    }
    const bool is_remembered = Contains(evicted_, x);
    evicted_.remove(x);
    if (is_remembered || lir_.size() < lir_max_) {
      BecomeLir(x);
      return;
    }
    stack_.push_front(x);
    queue_.push_back(x);
    Prune();
  }

  std::set<std::uint32_t> residents() const {
    std::set<std::uint32_t> all = lir_;
    all.insert(queue_.begin(), queue_.end());
    return all;
  }

 private:
  using List = std::list<std::uint32_t>;

  static bool Contains(const List& list, std::uint32_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  }

  void BecomeLir(std::uint32_t x) {
    stack_.remove(x);
    stack_.push_front(x);
    lir_.insert(x);
    if (lir_.size() > lir_max_) {
      const std::uint32_t bottom = stack_.back();
      stack_.pop_back();
      lir_.erase(bottom);
      queue_.push_back(bottom);
    }
    Prune();
  }

  void Prune() {
    while (!stack_.empty() && !lir_.contains(stack_.back())) {
      evicted_.remove(stack_.back());
      stack_.pop_back();
    }
  }

  std::size_t c_;
  std::size_t lir_max_;
  std::set<std::uint32_t> lir_;
  List stack_;
  List queue_;
  List evicted_;  // Those of the stack, first evicted first.
};

TEST(LirsPolicyTest, EqualsThePapersStackAndQueueOnRandomTraces) {
  testing::ExpectEqualToNaiveOnRandomTraces<LirsPolicy, NaiveLirs>();
}

TEST(LirsPolicyTest, HandsOutNoHeldBlockAndEveryNumberBack) {
  testing::ExpectLiveUseIsSound<LirsPolicy>();
}

// The counts of docs/policies-compared.md, which explains how they differ from libCacheSim's.
TEST(LirsPolicyTest, MissesOnThePublicTracesAsDocumented) {
  KVFERRY_REQUIRE_SHARED(testing::kConversation.file);
  KVFERRY_REQUIRE_SHARED(testing::kRagPulse.file);
  const replay::Trace conversation = testing::ReadShared(testing::kConversation);
  EXPECT_EQ(testing::BlockRuleMisses<LirsPolicy>(conversation, 1'828), 260'287U);
  EXPECT_EQ(testing::BlockRuleMisses<LirsPolicy>(conversation, 18'279), 222'087U);
  const replay::Trace ragpulse = testing::ReadShared(testing::kRagPulse);
  EXPECT_EQ(testing::BlockRuleMisses<LirsPolicy>(ragpulse, 1'644), 164'692U);
  EXPECT_EQ(testing::BlockRuleMisses<LirsPolicy>(ragpulse, 16'438), 164'394U);
}

}  // namespace
}  // namespace kvferry::policy
