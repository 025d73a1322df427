// The synthetic decoder on the simulated runtime: staged blocks against resident ones.
#include "bench/decode_run.h"

#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "bench/decode_gpu.h"
#include "bench/decode_reference.h"
#include "bench/staged_blocks.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::bench {
namespace {

using testing::Must;

DecodePlan PlanOf(std::uint32_t hint_turns) {
  DecodePlan plan;
  plan.sessions = 5;
  plan.context_tokens = 28;
  plan.block_tokens = 16;
  plan.hbm_blocks = 6;
  plan.steps = 24;
  plan.turn_steps = 4;
  plan.hint_turns = hint_turns;
  return Must(DecodePlan::Make(plan));
}

EngineOptions OptionsOf(const DecodeShape& shape) {
  EngineOptions options;
  options.host.bytes = 4 * kMiB;
  options.host.is_populated = false;
  options.block_bytes = shape.block_bytes();
  options.copy_threads = 1;
  options.requests_max = 64;
  options.hbm.mode = HbmMode::kAttached;
  return options;
}

// Never waits for a layer, as a server with a bug would.
class Forgetful final : public DecodeBlocks {
 public:
  explicit Forgetful(StagedBlocks& blocks) : blocks_(blocks) {}
  Status BeginTurn(std::uint32_t turn) override { return blocks_.BeginTurn(turn); }
  Status Poll() override { return blocks_.Poll(); }
  Status AwaitLayer(std::uint32_t /*session*/, std::uint32_t /*layer*/) override {
    return Status::Ok();
  }
  Status EndTurn(std::uint32_t turn) override { return blocks_.EndTurn(turn); }
  std::span<const std::int32_t> PagesOf(std::uint32_t session) const override {
    return blocks_.PagesOf(session);
  }

 private:
  StagedBlocks& blocks_;
};

class DecodeRunTest : public ::testing::TestWithParam<sim::CudaSchedule> {
 protected:
  // Opens the device; once a test.
  void Open(const DecodePlan& plan, sim::CudaSchedule schedule) {
    plan_ = plan;
    gpu_ = Must(DecodeGpu::OpenSim(schedule, 1, 12 * kMiB));
    stream_.emplace(Must(gpu::Stream::Create(gpu_->device(), gpu::StreamPriority::kLowest)));
    feeder_.emplace(Must(BlockFeeder::Create(gpu_->device(), values_)));
  }

  std::string Resident() {
    const auto pages = static_cast<std::uint32_t>(plan_.total_blocks());
    DecodeMemory memory = Must(DecodeMemory::Create(gpu_->device(), shape_, pages));
    const auto blocks = Must(ResidentBlocks::Create(plan_, *feeder_, *stream_, memory));
    const DecodeTrace trace = Must(RunDecode({*gpu_, plan_, values_, *stream_, memory, *blocks}));
    CheckRows(trace);
    return trace.Digest();
  }

  std::string Staged(const EngineOptions& options, bool is_forgetful = false) {
    DecodeMemory memory = Must(DecodeMemory::Create(gpu_->device(), shape_, plan_.hbm_blocks));
    const auto blocks =
        Must(StagedBlocks::Open({*gpu_, plan_, values_, *feeder_, *stream_, memory}, options));
    EXPECT_OK(blocks->Prefill());
    Forgetful forgetful(*blocks);
    DecodeBlocks& used = is_forgetful ? static_cast<DecodeBlocks&>(forgetful) : *blocks;
    const DecodeTrace trace = Must(RunDecode({*gpu_, plan_, values_, *stream_, memory, used}));
    EXPECT_EQ(trace.step_seconds.size(), plan_.steps);
    recomputed_ = blocks->blocks_recomputed();
    stats_ = blocks->Stats();
    return trace.Digest();
  }

  // A row of every step.
  void CheckRows(const DecodeTrace& trace) {
    for (std::uint32_t step = 0; step < plan_.steps; ++step) {
      const DecodePlan::Turn turn = plan_.TurnAt(step / plan_.turn_steps);
      const std::uint32_t head = step % shape_.query_heads;
      const auto expected =
          AttendInDouble(values_, {.session = turn.first_session + turn.sessions - 1,
                                   .layer = step % shape_.layers,
                                   .query_head = head,
                                   .tokens = turn.tokens + step % plan_.turn_steps + 1});
      EXPECT_LT(RelativeError(expected, trace.RowAt({.step = step,
                                                     .layer = step % shape_.layers,
                                                     .line = turn.sessions - 1,
                                                     .lines = turn.sessions,
                                                     .query_head = head})),
                1e-2)
          << step;
    }
  }

  DecodeShape shape_;
  DecodeValues values_{shape_, 1};
  DecodePlan plan_;
  std::unique_ptr<DecodeGpu> gpu_;
  std::optional<gpu::Stream> stream_;
  std::optional<BlockFeeder> feeder_;
  std::uint64_t recomputed_ = 0;
  EngineStats stats_;
};

INSTANTIATE_TEST_SUITE_P(AllSchedules,
                         DecodeRunTest,
                         testing::EachSchedule(),
                         testing::NameOfSchedule);

TEST_P(DecodeRunTest, StagedBlocksMakeTheOutputsOfResidentOnes) {
  Open(PlanOf(1), GetParam());
  const std::string resident = Resident();
  EXPECT_EQ(Staged(OptionsOf(shape_)), resident);
  EXPECT_EQ(recomputed_, 0U);
  EXPECT_GT(stats_.onboard_host_to_hbm.blocks, 0U);
  // Those of prefill, and the ones that became full in a turn.
  EXPECT_GT(stats_.offload_hbm_to_host.blocks, std::uint64_t{plan_.sessions});
}

TEST_P(DecodeRunTest, BlocksComeInTimeWithoutHintsToo) {
  Open(PlanOf(0), GetParam());
  EXPECT_EQ(Staged(OptionsOf(shape_)), Resident());
}

TEST_F(DecodeRunTest, ADecoderThatDoesNotWaitIsFoundOut) {
  // Else equal digests would say nothing.
  Open(PlanOf(0), sim::CudaSchedule::kLazy);
  EXPECT_NE(Staged(OptionsOf(shape_), true), Resident());
}

TEST_F(DecodeRunTest, ComputesAgainWhatTheEngineHasNotAnyMore) {
  DecodePlan plan;
  plan.sessions = 18;
  plan.context_tokens = 130;
  plan.block_tokens = 16;
  plan.hbm_blocks = 20;
  plan.steps = 20;
  plan.turn_steps = 1;
  plan.hint_turns = 1;
  Open(Must(DecodePlan::Make(plan)), sim::CudaSchedule::kEager);
  EngineOptions options = OptionsOf(shape_);
  options.host.bytes = 2 * kMiB;  // Of 128 blocks, where there are 144.
  EXPECT_EQ(Staged(options), Resident());
  EXPECT_GT(recomputed_, 0U);
}

TEST_F(DecodeRunTest, CountsWhatAttentionReads) {
  const DecodePlan plan = PlanOf(1);
  std::uint64_t tokens = 0;
  for (std::uint32_t step = 4; step < plan.steps; ++step) {
    const DecodePlan::Turn turn = plan.TurnAt(step / plan.turn_steps);
    tokens += std::uint64_t{turn.sessions} * (turn.tokens + step % plan.turn_steps + 1);
  }
  EXPECT_EQ(AttendedBytes(plan, shape_, 4), tokens * 2 * 2 * 2 * 64 * 2);
}

}  // namespace
}  // namespace kvferry::bench
