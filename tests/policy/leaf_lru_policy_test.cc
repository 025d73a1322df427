// What leaf-LRU promises.
#include "policy/leaf_lru_policy.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policy/live_owner.h"
#include "tests/policy/policy_harness.h"
#include "tests/policy/reference_policies.h"

namespace kvferry::policy {
namespace {

// Moving whole chains, groups or a hand must not change a single decision.
TEST(LeafLruPolicyTest, EqualsItsNaiveReferenceOnRandomTraces) {
  testing::ExpectEqualsReference<LeafLruPolicy, testing::NaiveLeafLru>();
}

using Path = std::vector<EntryIndex>;

// Drives one policy as a live owner with room for everything.
class RoomyOwner {
 public:
  RoomyOwner() : policy_({.entries_max = 10'000, .residents_max = 10'000}) {}

  void Request(std::uint64_t number, const Path& path) {
    Access access;
    access.request = number;
    policy_.OnRequest(access, path, 0);
    for (std::size_t i = path.size(); i-- > 0;) {
      Touch(path, i);
    }
  }
  void Grow(std::uint64_t number, const Path& path, std::size_t old_length) {
    Access access;
    access.request = number;
    policy_.OnRequest(access, path, static_cast<std::uint32_t>(old_length));
    for (std::size_t i = old_length; i < path.size(); ++i) {
      Touch(path, i);
    }
  }
  // All blocks in the order in which they would leave.
  Path Drain() {
    Path order;
    for (EntryIndex victim = Take(); victim != kNoEntry; victim = Take()) {
      order.push_back(victim);
      policy_.OnRemove(victim, RemoveReason::kEvicted);
    }
    return order;
  }

 private:
  // Nobody is held, so the guess must be right.
  EntryIndex Take() {
    std::array<EntryIndex, 3> next{};
    const std::size_t count = policy_.PeekVictims(next);
    const EntryIndex victim = policy_.TakeVictim([](EntryIndex) { return false; });
    EXPECT_EQ(count > 0 ? next[0] : kNoEntry, victim);
    if (second_ != kNoEntry) {
      EXPECT_EQ(victim, second_);  // As was guessed when the one before it left.
    }
    second_ = count > 1 ? next[1] : kNoEntry;
    return victim;
  }
  void Touch(const Path& path, std::size_t i) {
    if (is_resident_[path[i]]) {
      policy_.OnHit(std::span(path).subspan(i, 1));
      return;
    }
    is_resident_[path[i]] = true;
    policy_.OnInsert(path[i], i > 0 ? path[i - 1] : kNoEntry);
  }

  LeafLruPolicy policy_;
  std::map<EntryIndex, bool> is_resident_;
  EntryIndex second_ = kNoEntry;
};

// Requests of conversations that branch, as paths over numbers in which a parent is below a child.
std::vector<Path> RandomPaths(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Path> paths = {{EntryIndex{0}}};
  std::uint32_t next = 1;
  while (paths.size() < 60) {
    Path path = paths[random() % paths.size()];
    path.resize(1 + random() % path.size());
    for (std::uint64_t added = random() % 6; added > 0; --added) {
      path.push_back(EntryIndex{next++});
    }
    paths.push_back(path);
  }
  return paths;
}

// A request that was announced in pieces must not leave in another order than one that came whole.
TEST(LeafLruPolicyTest, GrownRequestLiesWhereAWholeOneWould) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    RoomyOwner whole;
    RoomyOwner grown;
    std::uint64_t number = 0;
    for (const Path& path : RandomPaths(seed)) {
      ++number;
      whole.Request(number, path);
      const std::size_t first = 1 + random() % path.size();
      const std::size_t second = first + random() % (path.size() - first + 1);
      grown.Request(number, Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(first)));
      grown.Grow(number, Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(second)),
                 first);
      grown.Grow(number, path, second);
    }

    EXPECT_EQ(grown.Drain(), whole.Drain());
  }
}

// While other requests come between the pieces, a parent must still never leave before its child.
TEST(LeafLruPolicyTest, ChildrenLeaveFirstHoweverRequestsGrow) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    RoomyOwner owner;
    std::map<EntryIndex, EntryIndex> parents;
    const std::vector<Path> paths = RandomPaths(seed);
    std::vector<std::size_t> lengths(paths.size());
    std::vector<std::uint64_t> numbers(paths.size());
    std::uint64_t newest = 0;
    for (std::size_t step = 0; step < 400; ++step) {
      const std::size_t index = random() % paths.size();
      const Path& path = paths[index];
      std::size_t& length = lengths[index];
      const std::size_t longer = length + random() % (path.size() - length + 1);
      const Path part(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(longer));
      if (length == 0) {
        numbers[index] = ++newest;
        owner.Request(newest, part);
      } else {
        owner.Grow(numbers[index], part, length);
      }
      length = longer;
      for (std::size_t i = 1; i < longer; ++i) {
        parents[path[i]] = path[i - 1];
      }
    }
    const Path order = owner.Drain();
    std::map<EntryIndex, std::size_t> turn;
    for (std::size_t i = 0; i < order.size(); ++i) {
      turn[order[i]] = i;
    }

    EXPECT_GT(parents.size(), 50U);
    for (const auto& [child, parent] : parents) {
      EXPECT_LT(turn.at(child), turn.at(parent));
    }
  }
}

// A held block that is named, or a number that never comes back, would stop a live tier.
TEST(LeafLruPolicyTest, PassesHeldBlocksAndGivesNumbersBack) {
  testing::ExpectLiveUseIsSound<LeafLruPolicy>();
}

}  // namespace
}  // namespace kvferry::policy
