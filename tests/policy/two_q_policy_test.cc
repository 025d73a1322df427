// 2Q against the full version of the paper, written down as it stands.
#include "policy/two_q_policy.h"

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

class NaiveTwoQ {
 public:
  explicit NaiveTwoQ(std::size_t capacity)
      : c_(capacity),
        k_in_(std::max<std::size_t>(1, capacity / 4)),
        k_out_(std::max<std::size_t>(1, capacity / 2)) {}

  void Access(std::uint32_t x) {
    if (Contains(am_, x)) {
      am_.remove(x);
      am_.push_front(x);
    } else if (Contains(a1_out_, x)) {
      ReclaimFor();
      a1_out_.remove(x);
      am_.push_front(x);
    } else if (!Contains(a1_in_, x)) {
      ReclaimFor();
      a1_in_.push_front(x);
    }
  }

  std::set<std::uint32_t> residents() const {
    std::set<std::uint32_t> all(a1_in_.begin(), a1_in_.end());
    all.insert(am_.begin(), am_.end());
    return all;
  }

 private:
  using List = std::list<std::uint32_t>;

  static bool Contains(const List& list, std::uint32_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  }

  void ReclaimFor() {
    if (a1_in_.size() + am_.size() < c_) {
      return;
    }
    if (a1_in_.size() <= k_in_ && !am_.empty()) {
      am_.pop_back();
      return;
    }
    a1_out_.push_front(a1_in_.back());
    a1_in_.pop_back();
    if (a1_out_.size() > k_out_) {
      a1_out_.pop_back();
    }
  }

  std::size_t c_;
  std::size_t k_in_;
  std::size_t k_out_;
  List a1_in_;
  List a1_out_;
  List am_;
};

TEST(TwoQPolicyTest, EqualsThePapersAlgorithmOnRandomTraces) {
  testing::ExpectEqualToNaiveOnRandomTraces<TwoQPolicy, NaiveTwoQ>();
}

TEST(TwoQPolicyTest, HandsOutNoHeldBlockAndEveryNumberBack) {
  testing::ExpectLiveUseIsSound<TwoQPolicy>();
}

// The counts of docs/policies-compared.md, which explains how they differ from libCacheSim's.
TEST(TwoQPolicyTest, MissesOnThePublicTracesAsDocumented) {
  KVFERRY_REQUIRE_SHARED(testing::kConversation.file);
  KVFERRY_REQUIRE_SHARED(testing::kRagPulse.file);
  const replay::Trace conversation = testing::ReadShared(testing::kConversation);
  EXPECT_EQ(testing::BlockRuleMisses<TwoQPolicy>(conversation, 1'828), 269'022U);
  EXPECT_EQ(testing::BlockRuleMisses<TwoQPolicy>(conversation, 18'279), 215'235U);
  const replay::Trace ragpulse = testing::ReadShared(testing::kRagPulse);
  EXPECT_EQ(testing::BlockRuleMisses<TwoQPolicy>(ragpulse, 1'644), 164'602U);
  EXPECT_EQ(testing::BlockRuleMisses<TwoQPolicy>(ragpulse, 16'438), 164'490U);
}

}  // namespace
}  // namespace kvferry::policy
