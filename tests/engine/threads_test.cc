// Many callers' threads on one engine with a pool that is too small for them.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/engine.h"

#include "stress/block_model.h"
#include "tests/engine/caller_script.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry {
namespace {

using testing::CallerScript;
using testing::Rounds;
using testing::ScriptSpaces;

constexpr std::uint32_t kThreads = 16;
constexpr std::uint32_t kCallsPerScript = 50;

// Room for 64 of the 272 blocks that the threads have, and for 80 of their 96 requests.
EngineOptions SmallPool() {
  EngineOptions options;
  options.host.bytes = 2 << 20;
  options.host.huge_pages = HugePages::kNone;
  options.host.verify_on_get = true;
  options.block_bytes = 32 << 10;
  options.history.blocks_max = 128;
  options.requests_max = 80;
  options.blocks_per_request_max = 16;
  options.handles_max = 64;
  options.copy_threads = 2;
  return options;
}

class EngineThreadsTest : public ::testing::Test {
 protected:
  struct Sums {
    std::uint64_t ended = 0;
    std::uint64_t compared = 0;
    std::string failure;
  };

  void Open() {
    auto engine = Engine::Open(SmallPool());
    ASSERT_OK(engine);
    engine_ = std::move(*engine);
    spaces_.handles.clear();
    for (std::uint32_t space = 0; space <= kThreads; ++space) {
      auto added = engine_->AddNamespace(testing::NamespaceOf("model " + std::to_string(space)),
                                         {.block_bytes = ScriptSpaces::kBlockBytes});
      ASSERT_OK(added);
      spaces_.handles.push_back(*added);
    }
  }

  // Each thread runs scripts until it has done `scripts`, or the engine is closed.
  void RunThreads(std::uint32_t scripts, bool may_be_closed) {
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([this, thread, scripts, may_be_closed] {
        stress::BlockModel model(kThreads + 1, ScriptSpaces::kKeysPerSpace);
        Sums& sums = sums_[thread];
        for (std::uint32_t i = 0; i < scripts; ++i) {
          CallerScript script(*engine_, spaces_, model,
                              {.seed = i * kThreads + thread + 1,
                               .own_space = thread,
                               .may_be_closed = may_be_closed});
          const bool goes_on = script.Run(kCallsPerScript);
          sums.ended += script.ended();
          sums.compared += script.compared();
          sums.failure = script.failure();
          if (++scripts_done_ == closes_after_) {
            EXPECT_OK(engine_->Close());
          }
          if (!goes_on) {
            return;
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const Sums& sums : sums_) {
      EXPECT_EQ(sums.failure, "");
    }
  }

  std::uint64_t Sum(std::uint64_t Sums::*part) const {
    std::uint64_t sum = 0;
    for (const Sums& sums : sums_) {
      sum += sums.*part;
    }
    return sum;
  }

  std::unique_ptr<Engine> engine_;
  ScriptSpaces spaces_;
  std::array<Sums, kThreads> sums_;
  std::atomic<std::uint32_t> scripts_done_ = 0;
  std::uint32_t closes_after_ = ~0U;  // Scripts, of all threads together.
};

// Wrong bytes, a lost or doubled completion, or a count that does not come back to nothing.
TEST_F(EngineThreadsTest, EveryTicketEndsOnceWithTheRightBytes) {
  ASSERT_NO_FATAL_FAILURE(Open());

  RunThreads(Rounds(63), false);

  ASSERT_OK(engine_->Close());
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.requests_started, Sum(&Sums::ended));
  EXPECT_EQ(stats.requests_ended, stats.requests_started);
  EXPECT_GT(Sum(&Sums::ended), Rounds(63) * kThreads * kCallsPerScript / 2);
  EXPECT_GT(Sum(&Sums::compared), Rounds(1'000));
  EXPECT_GT(stats.host.evictions, Rounds(100));
  EXPECT_GT(stats.cancelled, 0U);
  EXPECT_EQ(stats.host.blocks_held, 0U);
  EXPECT_EQ(stats.host.bytes_filling, 0U);
  EXPECT_EQ(stats.host.bytes_draining, 0U);
}

// A request that is under way when the engine is closed, or comes a moment later.
TEST_F(EngineThreadsTest, CloseEndsWhatIsInFlight) {
  for (std::uint32_t round = 0; round < 10; ++round) {
    ASSERT_NO_FATAL_FAILURE(Open());
    sums_ = {};
    scripts_done_ = 0;
    closes_after_ = 2 * kThreads + round;

    RunThreads(1'000, true);

    const EngineStats stats = engine_->Stats();
    EXPECT_EQ(stats.requests_started, Sum(&Sums::ended));
    EXPECT_EQ(stats.requests_ended, stats.requests_started);
    EXPECT_EQ(stats.host.bytes_filling, 0U);
    engine_.reset();
  }
}

}  // namespace
}  // namespace kvferry
