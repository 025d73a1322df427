// Sessions of traces small enough for paper, and the outputs that successors prove.
#include "replay/session_inference.h"

#include <vector>

#include <gtest/gtest.h>

#include "replay/trace_stats.h"
#include "tests/replay/small_trace.h"

namespace kvferry::replay {
namespace {

using testing::MakeTrace;
using testing::SmallRequest;

SessionStats SessionsOf(const std::vector<SmallRequest>& requests) {
  return ComputeTraceStats(MakeTrace(requests), {}).sessions;
}

TEST(SessionInferenceTest, AFollowerReusesAllButAtMostTheLastBlock) {
  // The partial last block 3 becomes the full block 4: still the same conversation.
  const SessionStats follows = SessionsOf({{0, {1, 2, 3}}, {70, {1, 2, 4, 5}}});
  EXPECT_EQ(follows.kind, SessionKind::kInferred);
  EXPECT_EQ(follows.count, 1U);
  EXPECT_EQ(follows.turns.max, 2U);
  ASSERT_TRUE(follows.gap_ms.has_value());
  EXPECT_EQ(follows.gap_ms->p50, 70U);

  // Two blocks of four are missing: another conversation with the same beginning.
  const SessionStats branches = SessionsOf({{0, {1, 2, 3, 4}}, {70, {1, 2, 5}}});
  EXPECT_EQ(branches.count, 2U);
  EXPECT_EQ(branches.single, 2U);
  EXPECT_FALSE(branches.gap_ms.has_value());
}

TEST(SessionInferenceTest, OneCommonBlockIsTooLittle) {
  // A shared first block is a system prompt, also when it is all that the earlier one has.
  EXPECT_EQ(SessionsOf({{0, {1}}, {0, {1, 2}}}).count, 2U);
  EXPECT_EQ(SessionsOf({{0, {1, 2}}, {0, {1, 3}}}).count, 2U);
  EXPECT_EQ(SessionsOf({{0, {1, 2}}, {0, {1, 2}}}).count, 1U);
}

TEST(SessionInferenceTest, TheLatestHolderOfTheDeepestHitBlockIsFollowed) {
  // Block 2 was held last by request 1, whose own path is longer: request 2 leaves two of its
  // blocks and follows nobody, though it would continue request 0.
  EXPECT_EQ(SessionsOf({{0, {1, 2}}, {1, {1, 2, 3, 4}}, {2, {1, 2, 5}}}).count, 2U);
}

TEST(SessionInferenceTest, TwoFollowersOfOneRequestBothCountItsEarlierTurns) {
  // Request 1 fills up the partial block 3 of request 0, request 2 goes on from it: sessions 0-1
  // and 0-2 of two turns each, gaps 10 and 25.
  const SessionStats stats = SessionsOf({{0, {1, 2, 3}}, {10, {1, 2, 4}}, {25, {1, 2, 3, 5}}});

  EXPECT_EQ(stats.count, 2U);
  EXPECT_EQ(stats.single, 0U);
  EXPECT_EQ(stats.turns.p50, 2U);
  ASSERT_TRUE(stats.gap_ms.has_value());
  EXPECT_EQ(stats.gap_ms->p50, 10U);
  EXPECT_EQ(stats.gap_ms->max, 25U);
}

TEST(SessionInferenceTest, UnchainedPathsAreCompared) {
  // Request 1 holds the same blocks in another order: it holds the deepest hit block, but shares
  // no prefix with request 2.
  const std::vector<SmallRequest> requests = {{0, {1, 2}}, {1, {2, 1}}, {2, {1, 2, 3}}};
  ASSERT_FALSE(MakeTrace(requests).is_chained());
  EXPECT_EQ(SessionsOf(requests).count, 3U);

  EXPECT_EQ(SessionsOf({{0, {2, 1}}, {1, {1, 2}}, {2, {1, 2, 3}}}).count, 2U);
}

TEST(SessionInferenceTest, GivenIdsDecideWhateverThePaths) {
  // Ids a and b, and one request without any, which is a session of its own.
  const SessionStats stats = SessionsOf({{0, {1, 2}, 0, "a"},
                                         {5, {1, 2}, 0, "b"},
                                         {9, {7}, 0, "a"},
                                         {12, {1, 2}},
                                         {10, {8}, 0, "a"}});

  EXPECT_EQ(stats.kind, SessionKind::kGiven);
  EXPECT_EQ(stats.count, 3U);
  EXPECT_EQ(stats.single, 2U);
  EXPECT_EQ(stats.turns.p50, 1U);
  EXPECT_EQ(stats.turns.max, 3U);
  ASSERT_TRUE(stats.gap_ms.has_value());
  EXPECT_EQ(stats.gap_ms->p50, 1U);
  EXPECT_EQ(stats.gap_ms->max, 9U);
}

TEST(FindStoredOutputsTest, StoresWhatInputAndOutputFillOfTheSuccessorsPath) {
  // 20 + 25 tokens fill four blocks of ten; the fifth block of the successor is its own input.
  const Trace trace = MakeTrace({{0, {1, 2}, 25}, {1, {1, 2, 3, 4, 5}, 99}});

  const auto outputs = FindStoredOutputs(trace);

  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[0].successor, 1U);
  EXPECT_EQ(outputs[0].block_count, 4U);
  EXPECT_EQ(outputs[1].block_count, 0U);
}

TEST(FindStoredOutputsTest, AnOutputMayCompleteThePartialLastBlock) {
  // 25 tokens are blocks 1, 2 and the partial 3; five more make the full block 4 in its place.
  const Trace trace = MakeTrace({{0, {1, 2, 3}, 5, "", 25}, {1, {1, 2, 4, 5}}});

  const auto outputs = FindStoredOutputs(trace);

  EXPECT_EQ(outputs[0].block_count, 3U);
}

TEST(FindStoredOutputsTest, StoresNothingThatBothPathsHaveAlready) {
  // Four tokens of output do not complete a block, and no successor has more than it has.
  EXPECT_EQ(FindStoredOutputs(MakeTrace({{0, {1, 2}, 4}, {1, {1, 2, 3}}}))[0].block_count, 0U);
  EXPECT_EQ(FindStoredOutputs(MakeTrace({{0, {1, 2}, 400}, {1, {1, 2}}}))[0].block_count, 0U);
  EXPECT_EQ(FindStoredOutputs(MakeTrace({{0, {1, 2}, 400}, {1, {1, 2, 3}}}))[0].block_count, 3U);
}

TEST(FindStoredOutputsTest, TheFirstInferredFollowerShowsTheOutput) {
  // Both continue request 0; what was generated is what the first one holds.
  const Trace trace = MakeTrace({{0, {1, 2}, 10}, {1, {1, 2, 3}}, {2, {1, 2, 4}}});

  const auto outputs = FindStoredOutputs(trace);

  EXPECT_EQ(outputs[0].successor, 1U);
  EXPECT_EQ(outputs[0].block_count, 3U);
}

TEST(FindStoredOutputsTest, GivenSessionsAreSearchedForTheRequestThatContinues) {
  // In session a, request 1 is a side call; request 3 goes on. Request 2 has the same path but
  // belongs to session b.
  const Trace trace = MakeTrace(
      {{0, {1, 2}, 10, "a"}, {1, {7, 8}, 0, "a"}, {2, {1, 2, 3}, 0, "b"}, {3, {1, 2, 4}, 0, "a"}});

  const auto outputs = FindStoredOutputs(trace);

  EXPECT_EQ(outputs[0].successor, 3U);
  EXPECT_EQ(outputs[0].block_count, 3U);
  EXPECT_EQ(outputs[1].block_count, 0U);
}

TEST(FindStoredOutputsTest, LooksOnlySoFarAheadInASession) {
  // The search is bounded: one request beyond the bound is not found.
  for (const std::size_t between : {kSuccessorDistanceMax - 1, kSuccessorDistanceMax}) {
    std::vector<SmallRequest> requests = {{0, {1, 2}, 10, "a"}};
    for (std::size_t i = 0; i < between; ++i) {
      requests.push_back({1, {100 + i}, 0, "a"});
    }
    requests.push_back({2, {1, 2, 3}, 0, "a"});

    const auto outputs = FindStoredOutputs(MakeTrace(requests));

    EXPECT_EQ(outputs[0].block_count, between < kSuccessorDistanceMax ? 3U : 0U);
  }
}

}  // namespace
}  // namespace kvferry::replay
