// The engine without its threads: calls that meet what only the mover's own time can bring about.
#include "engine/engine_core.h"

#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/inline_workers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

using testing::BytesOf;
using testing::InlineWorkers;
using testing::KeysOf;
using testing::NamespaceOf;

constexpr std::uint32_t kBlockBytes = 4 << 10;

class EngineCoreTest : public ::testing::Test, private RequestSink {
 protected:
  void SetUp() override {
    auto slabs = tiers::HostSlabs::Create({.memory = {.bytes = 4 << 20}});
    ASSERT_OK(slabs);
    slabs_ = std::move(*slabs);
    EngineCore::Options options;
    options.residents_max = 64;
    options.requests_max = 4;
    options.blocks_per_request_max = 256;
    options.handles_max = 4;
    auto core = EngineCore::Create(
        options, {.workers = workers_, .slabs = *slabs_, .namespaces = namespaces_, .sink = *this});
    ASSERT_OK(core);
    core_ = std::move(*core);
    auto space = namespaces_.Add(NamespaceOf("model"), {.block_bytes = kBlockBytes});
    ASSERT_OK(space);
    space_ = *space;
  }

  void StepUntilIdle() {
    do {
      now_ += std::chrono::microseconds(1);
    } while (core_->Step(now_) || !core_->is_idle());
    core_->CheckInvariants();
  }

  // A put of blocks that all have the same bytes.
  Call PutOf(const std::vector<BlockKey>& keys) {
    sources_.assign(keys.size(), block_.data());
    Call call;
    call.kind = Call::Kind::kPut;
    call.in = space_;
    call.erasures = namespaces_.erasures(space_);
    call.block_bytes = kBlockBytes;
    call.deadline = Instant::max();
    call.keys = keys;
    call.sources = sources_;
    return call;
  }

  Instant now_{std::chrono::seconds(1)};
  NamespaceTable namespaces_{4};
  NamespaceHandle space_;
  std::unique_ptr<EngineCore> core_;
  Completion ended_;

 private:
  void OnRequestDone(std::uint32_t /*request*/,
                     const Completion& completion,
                     std::uint32_t /*first_handle*/) noexcept override {
    ended_ = completion;
  }

  InlineWorkers workers_;
  std::unique_ptr<tiers::HostSlabs> slabs_;
  std::vector<std::byte> block_ = BytesOf(1, kBlockBytes);
  std::vector<const std::byte*> sources_;
};

// A put from before so many erasures that the namespace's epoch has come round to its own.
TEST_F(EngineCoreTest, DiscardsAPutThatIsOlderThanAllEpochs) {
  const auto keys = KeysOf(1, 8);
  const Call put = PutOf(keys);
  for (int erasure = 0; erasure < 256; ++erasure) {
    ASSERT_OK(namespaces_.BeginErase(space_));
    StepUntilIdle();
  }

  core_->Start(0, put);
  StepUntilIdle();

  EXPECT_EQ(ended_.blocks_stored, 0U);
  EXPECT_EQ(ended_.next_missing, MissReason::kErased);
  EXPECT_EQ(core_->Match(space_, keys).blocks(), 0U);
}

// Copies that no worker has begun when their request ends early are not made, and leave nothing;
// but for those that another request waits for.
TEST_F(EngineCoreTest, StopsTheCopiesOfARequestThatEndsEarly) {
  const auto keys = KeysOf(1, 8);
  core_->Start(0, PutOf(keys));
  core_->Step(now_ += std::chrono::microseconds(1));  // Copies are under way.
  ASSERT_GT(core_->copies_in_flight(), 0U);
  core_->EndEarly(0, StatusCode::kCancelled);
  StepUntilIdle();
  EXPECT_EQ(ended_.status.code(), StatusCode::kCancelled);
  EXPECT_EQ(ended_.blocks_stored, 0U);
  EXPECT_EQ(core_->Match(space_, keys).blocks(), 0U);
  EXPECT_EQ(core_->Stats().host.bytes_resident, 0U);

  core_->Start(0, PutOf(keys));
  core_->Step(now_ += std::chrono::microseconds(1));
  core_->Start(1, PutOf(keys));
  core_->Step(now_);
  core_->EndEarly(0, StatusCode::kCancelled);
  StepUntilIdle();
  EXPECT_EQ(core_->Match(space_, keys).blocks(), 8U);

  std::vector<std::byte> target(kBlockBytes);
  const std::vector<std::byte*> targets(8, target.data());
  Call read = PutOf(keys);
  read.kind = Call::Kind::kGet;
  read.sources = {};
  read.targets = targets;
  core_->Start(0, read);
  core_->Step(now_ += std::chrono::microseconds(1));
  core_->EndEarly(0, StatusCode::kDeadlineExceeded);
  StepUntilIdle();
  EXPECT_EQ(ended_.blocks_ready, 0U);
  EXPECT_EQ(ended_.next_missing, MissReason::kTooLate);
  EXPECT_EQ(target, std::vector<std::byte>(kBlockBytes));
}

// A caller that erased a namespace, and then gets what was in it.
TEST_F(EngineCoreTest, ServesNothingOfANamespaceThatWasErasedMeanwhile) {
  const auto keys = KeysOf(1, 8);
  core_->Start(0, PutOf(keys));
  StepUntilIdle();
  ASSERT_EQ(ended_.blocks_stored, 8U);
  std::vector<std::byte> target(kBlockBytes);
  const std::vector<std::byte*> targets(8, target.data());
  for (const Call::Kind kind : {Call::Kind::kGet, Call::Kind::kPin}) {
    Call read = PutOf(keys);
    read.kind = kind;
    read.sources = {};
    read.targets = targets;
    core_->Start(1, read);
    if (kind == Call::Kind::kGet) {
      core_->Step(now_ += std::chrono::microseconds(1));  // Copies are under way.
    }
    ASSERT_OK(namespaces_.BeginErase(space_));
    ended_ = {};
    StepUntilIdle();

    EXPECT_EQ(ended_.blocks_ready, 0U);
    EXPECT_EQ(ended_.next_missing, MissReason::kErased);
    core_->Start(0, PutOf(keys));
    StepUntilIdle();
    ASSERT_EQ(ended_.blocks_stored, 8U);
  }
}

}  // namespace
}  // namespace kvferry::engine
