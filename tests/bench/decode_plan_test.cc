// Who is decoded when, and what HBM must hold for it.
#include "bench/decode_plan.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::bench {
namespace {

using ::testing::HasSubstr;

DecodePlan Wanted() {
  DecodePlan plan;
  plan.sessions = 7;
  plan.context_tokens = 30;
  plan.block_tokens = 16;
  plan.hbm_blocks = 13;
  plan.steps = 21;
  plan.turn_steps = 4;
  plan.hint_turns = 1;
  return plan;
}

TEST(DecodePlanTest, MakesTheLargestBatchThatLeavesRoomForAnother) {
  const Result<DecodePlan> plan = DecodePlan::Make(Wanted());
  ASSERT_OK(plan);
  // 30 tokens and two turns of 4 in six turns over four batches: 38 tokens in 3 blocks.
  EXPECT_EQ(plan->batch_sessions, 2U);
  EXPECT_EQ(plan->batches(), 4U);
  EXPECT_EQ(plan->turns(), 6U);
  EXPECT_EQ(plan->tokens_max(), 38U);
  EXPECT_EQ(plan->session_blocks(), 3U);
  EXPECT_EQ(plan->total_blocks(), 21U);
}

TEST(DecodePlanTest, GivesEverySessionItsTurnsWithTheTokensThatItHasByThen) {
  const Result<DecodePlan> plan = DecodePlan::Make(Wanted());
  ASSERT_OK(plan);
  std::vector<std::uint32_t> tokens(plan->sessions, plan->context_tokens);
  std::uint32_t steps = 0;
  for (std::uint32_t turn = 0; turn < plan->turns(); ++turn) {
    const DecodePlan::Turn now = plan->TurnAt(turn);
    EXPECT_EQ(now.first_step, steps);
    EXPECT_GT(now.sessions, 0U);
    for (std::uint32_t i = 0; i < now.sessions; ++i) {
      ASSERT_LT(now.first_session + i, plan->sessions);
      EXPECT_EQ(tokens[now.first_session + i], now.tokens) << turn;
      tokens[now.first_session + i] += now.steps;
      EXPECT_LE(tokens[now.first_session + i], plan->tokens_max());
    }
    steps += now.steps;
  }
  EXPECT_EQ(steps, plan->steps);
}

TEST(DecodePlanTest, RefusesWhatWouldStageNothingOrHasNoRoom) {
  const auto refusal = [](const DecodePlan& wanted) {
    const Result<DecodePlan> plan = DecodePlan::Make(wanted);
    EXPECT_STATUS(plan, StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  DecodePlan wanted = Wanted();
  wanted.hbm_blocks = 5;
  EXPECT_THAT(refusal(wanted), HasSubstr("--hbm-blocks 5: a session has 3 blocks"));
  wanted.hbm_blocks = 50;
  EXPECT_THAT(refusal(wanted), HasSubstr("fit in the 50 of --hbm-blocks"));
  wanted = Wanted();
  wanted.sessions = 2;
  EXPECT_THAT(refusal(wanted), HasSubstr("--sessions 2: "));
}

}  // namespace
}  // namespace kvferry::bench
