// GDSF against a search for the lowest priority, and where its window of priorities ends.
#include "policy/gdsf_policy.h"

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/policy/live_owner.h"
#include "tests/policy/naive_comparison.h"
#include "tests/policy/shared_trace_counts.h"

namespace kvferry::policy {
namespace {

class NaiveGdsf {
 public:
  explicit NaiveGdsf(std::size_t capacity) : c_(capacity) {}

  void Access(std::uint32_t x) {
    if (!blocks_.contains(x) && blocks_.size() == c_) {
      auto victim = blocks_.begin();
      for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
        if (std::tie(block->second.priority, block->second.touched_at) <
            std::tie(victim->second.priority, victim->second.touched_at)) {
          victim = block;
        }
      }
      inflation_ = victim->second.priority;
      blocks_.erase(victim);
    }
    Block& block = blocks_[x];
    ++block.frequency;
    block.priority = inflation_ + block.frequency;
    block.touched_at = ++now_;
  }

  std::set<std::uint32_t> residents() const {
    std::set<std::uint32_t> all;
    for (const auto& [entry, block] : blocks_) {
      all.insert(entry);
    }
    return all;
  }

 private:
  struct Block {
    std::uint64_t frequency = 0;
    std::uint64_t priority = 0;
    std::uint64_t touched_at = 0;
  };

  std::size_t c_;
  std::uint64_t inflation_ = 0;
  std::uint64_t now_ = 0;
  std::map<std::uint32_t, Block> blocks_;
};

TEST(GdsfPolicyTest, EqualsASearchForTheLowestPriorityOnRandomTraces) {
  testing::ExpectEqualToNaiveOnRandomTraces<GdsfPolicy, NaiveGdsf>();
}

TEST(GdsfPolicyTest, HandsOutNoHeldBlockAndEveryNumberBack) {
  testing::ExpectLiveUseIsSound<GdsfPolicy>();
}

// Blocks whose priority lies beyond the window must come back in the right order when it moves: two
// of different counts, and two of the same, of which the one touched first goes first.
TEST(GdsfPolicyTest, KeepsTheOrderOfBlocksBeyondTheWindow) {
  constexpr std::uint32_t kEntries = 8;
  GdsfPolicy policy({.entries_max = kEntries, .residents_max = kEntries});
  NaiveGdsf naive(4);
  std::set<std::uint32_t> residents;
  const auto access = [&](std::uint32_t entry) {
    const std::array<EntryIndex, 1> path{EntryIndex{entry}};
    policy.OnRequest({}, path, residents.contains(entry) ? 1 : 0);
    if (residents.contains(entry)) {
      policy.OnHit(path);
    } else {
      ASSERT_TRUE(policy.Admit(path[0]));
      if (residents.size() == 4) {
        const EntryIndex victim = policy.TakeVictim([](EntryIndex) { return false; });
        residents.erase(static_cast<std::uint32_t>(victim));
        policy.OnRemove(victim, RemoveReason::kEvicted);
      }
      policy.OnInsert(path[0], kNoEntry);
      residents.insert(entry);
    }
    naive.Access(entry);
    ASSERT_EQ(residents, naive.residents());
  };

  const std::uint32_t far = GdsfPolicy::kBuckets + 100;
  for (std::uint32_t touch = 0; touch < far; ++touch) {
    ASSERT_NO_FATAL_FAILURE(access(1));
    ASSERT_NO_FATAL_FAILURE(access(0));
    if (touch < far - 50) {
      ASSERT_NO_FATAL_FAILURE(access(2));
    }
    if (touch < far / 2) {
      ASSERT_NO_FATAL_FAILURE(access(3));
    }
  }
  // Newcomers drive 3, 2, then 1, then 0 out, in competition with each other.
  for (std::uint32_t touch = 0; touch < 3 * far; ++touch) {
    ASSERT_NO_FATAL_FAILURE(access(4 + touch % 4));
  }
  EXPECT_EQ(residents, (std::set<std::uint32_t>{4, 5, 6, 7}));
}

// The counts of docs/policies-compared.md, which explains how they differ from libCacheSim's.
TEST(GdsfPolicyTest, MissesOnThePublicTracesAsDocumented) {
  KVFERRY_REQUIRE_SHARED(testing::kConversation.file);
  KVFERRY_REQUIRE_SHARED(testing::kRagPulse.file);
  const replay::Trace conversation = testing::ReadShared(testing::kConversation);
  EXPECT_EQ(testing::BlockRuleMisses<GdsfPolicy>(conversation, 1'828), 272'630U);
  EXPECT_EQ(testing::BlockRuleMisses<GdsfPolicy>(conversation, 18'279), 205'364U);
  const replay::Trace ragpulse = testing::ReadShared(testing::kRagPulse);
  EXPECT_EQ(testing::BlockRuleMisses<GdsfPolicy>(ragpulse, 1'644), 164'378U);
  EXPECT_EQ(testing::BlockRuleMisses<GdsfPolicy>(ragpulse, 16'438), 164'378U);
}

}  // namespace
}  // namespace kvferry::policy
