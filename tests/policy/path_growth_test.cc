// A request that grew must lie in a policy's lists as if it had come whole.
#include "policy/path_growth.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "policy/arc_policy.h"
#include "policy/gdsf_policy.h"
#include "policy/lirs_policy.h"
#include "policy/s3_fifo_policy.h"
#include "policy/two_q_policy.h"
#include "policy/w_tinylfu_policy.h"

namespace kvferry::policy {
namespace {

using Path = std::vector<EntryIndex>;

Access RequestNumber(std::uint64_t request) {
  Access access;
  access.request = request;
  return access;
}

Path MakePath(std::uint32_t first, std::uint32_t last) {
  Path path;
  for (std::uint32_t entry = first; entry <= last; ++entry) {
    path.push_back(EntryIndex{entry});
  }
  return path;
}

TEST(PathGrowthTest, PlacesNewBlocksBehindTheirParentsRootFirst) {
  PathGrowth growth;
  const Path whole = MakePath(0, 4);
  growth.OnRequest(RequestNumber(7), std::span(whole).first(3), 0);
  EXPECT_EQ(growth.Predecessor(whole[2], whole[1]), kNoEntry) << "a new request goes to the front";

  growth.OnRequest(RequestNumber(8), whole, 0);  // Another one in between.
  growth.OnRequest(RequestNumber(7), whole, 3);
  EXPECT_EQ(growth.Predecessor(whole[3], whole[2]), whole[2]);
  EXPECT_EQ(growth.Predecessor(whole[4], whole[3]), whole[3]);
}

// What the replay stores of answers comes tail first: each goes directly behind the deepest hit.
TEST(PathGrowthTest, PlacesNewBlocksBehindTheDeepestHitTailFirst) {
  PathGrowth growth;
  const Path whole = MakePath(0, 4);
  growth.OnRequest(RequestNumber(7), std::span(whole).first(3), 0);
  growth.OnRequest(RequestNumber(7), whole, 3);
  EXPECT_EQ(growth.Predecessor(whole[4], whole[3]), whole[2]);
  EXPECT_EQ(growth.Predecessor(whole[3], whole[2]), whole[2]);
}

// Under the block rule every reference is announced with its request's number.
TEST(PathGrowthTest, TakesSingleReferencesForNoGrowth) {
  PathGrowth growth;
  const Path whole = MakePath(0, 1);
  growth.OnRequest(RequestNumber(7), std::span(whole).first(1), 0);
  growth.OnRequest(RequestNumber(7), std::span(whole).last(1), 0);
  EXPECT_EQ(growth.Predecessor(whole[1], kNoEntry), kNoEntry);
}

// In which order the blocks go after request 1 with `first` blocks, request 2, and request 1 again
// with four blocks, the new ones root first.
template <class Policy>
Path Departures(std::size_t first) {
  constexpr std::uint32_t kEntries = 1'000;  // So that no share of the capacity is in the way.
  PolicyOptions options;
  options.entries_max = kEntries;
  options.residents_max = kEntries;
  Policy policy(options);
  const Path grown = MakePath(0, 3);
  const Path other = MakePath(10, 12);
  const auto store = [&](std::span<const EntryIndex> path, std::size_t position) {
    EXPECT_TRUE(policy.Admit(path[position]));
    policy.OnInsert(path[position], position > 0 ? path[position - 1] : kNoEntry);
  };
  policy.OnRequest(RequestNumber(1), std::span(grown).first(first), 0);
  for (std::size_t position = first; position > 0; --position) {
    store(grown, position - 1);
  }
  policy.OnRequest(RequestNumber(2), other, 0);
  for (std::size_t position = other.size(); position > 0; --position) {
    store(other, position - 1);
  }
  policy.OnRequest(RequestNumber(1), grown, static_cast<std::uint32_t>(first));
  for (std::size_t position = first; position < grown.size(); ++position) {
    store(grown, position);
  }
  Path departures;
  for (std::size_t left = grown.size() + other.size(); left > 0; --left) {
    departures.push_back(policy.TakeVictim([](EntryIndex) { return false; }));
    policy.OnRemove(departures.back(), RemoveReason::kEvicted);
  }
  return departures;
}

template <class Policy>
class GrownRequestTest : public ::testing::Test {};
using GrowingPolicies =
    ::testing::Types<TwoQPolicy, S3FifoPolicy, ArcPolicy, LirsPolicy, WTinyLfuPolicy, GdsfPolicy>;
TYPED_TEST_SUITE(GrownRequestTest, GrowingPolicies);

TYPED_TEST(GrownRequestTest, LeavesAsIfItHadComeWhole) {
  const Path whole = Departures<TypeParam>(4);
  EXPECT_EQ(Departures<TypeParam>(1), whole);
  EXPECT_EQ(Departures<TypeParam>(2), whole);
  EXPECT_EQ(Departures<TypeParam>(3), whole);
}

}  // namespace
}  // namespace kvferry::policy
