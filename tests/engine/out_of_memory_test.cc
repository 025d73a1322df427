// Every allocation of an engine's life fails once, in turn.
#include <array>
#include <cctype>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/engine.h"
#include "kvferry/policy.h"

#include "engine/engine_core.h"
#include "tests/engine/counted_allocation.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry {
namespace {

using testing::EngineCode;
using testing::KeysOf;

constexpr std::uint32_t kBlockBytes = 4 << 10;
constexpr std::uint32_t kBlocks = 4;
// Far more than an engine's life takes; a sweep that comes here would never end.
constexpr std::uint64_t kAllocationsMax = 100'000;

EngineOptions TinyOptions() {
  EngineOptions options;
  options.host.bytes = 2 << 20;
  options.host.huge_pages = HugePages::kNone;
  options.block_bytes = 64 << 10;
  options.history.blocks_max = 64;
  options.namespaces_max = 4;
  options.requests_max = 8;
  options.blocks_per_request_max = 16;
  options.handles_max = 16;
  options.transfers_max = 8;
  options.copy_threads = 1;
  return options;
}

// One engine, from Open to Close, through calls of every kind. A call that lacked memory says so
// and has changed nothing: made again, it does what it would have done.
class Life {
 public:
  void Run() {
    auto engine = Try([&] { return Engine::Open(options_); });
    ASSERT_OK(engine);
    engine_ = std::move(*engine);
    auto added =
        Try([&] { return engine_->AddNamespace(description_, {.block_bytes = kBlockBytes}); });
    ASSERT_OK(added);
    space_ = *added;
    auto queue = Try([&] { return engine_->CreateCompletionQueue(8); });
    ASSERT_OK(queue);
    queue_ = std::move(*queue);
    MoveBlocks();
    HoldBlocks();
    CallWrongly();
    EndEarly();
    Erase();
    const EngineStats stats = engine_->Stats();
    EXPECT_EQ(stats.requests_started, stats.requests_ended);
    EXPECT_EQ(stats.host.blocks_held, 0U);
    EXPECT_EQ(stats.host.bytes_filling, 0U);
    EXPECT_OK(Try([&] { return engine_->Close(); }));
    EXPECT_STATUS(Try([&] { return engine_->Prefetch(named_, *queue_); }),
                  StatusCode::kUnavailable);
    const EngineCode code;
    queue_.reset();
    engine_.reset();
  }

  std::uint32_t refusals() const { return refusals_; }

 private:
  template <class Call>
  auto Try(const Call& call) -> decltype(call()) {
    {
      const EngineCode code;
      auto result = call();
      if (testing::StatusOf(result).code() != StatusCode::kResourceExhausted) {
        return result;
      }
    }
    ++refusals_;
    const EngineCode code;
    return call();
  }

  Completion Await() {
    EXPECT_OK(Try([&] { return queue_->Wait(Clock::now() + std::chrono::seconds(60)); }));
    std::array<Completion, 1> done;
    EXPECT_EQ(queue_->Poll(done), 1U);
    return done[0];
  }

  void MoveBlocks() {
    std::vector<std::vector<std::byte>> blocks(kBlocks, std::vector<std::byte>(kBlockBytes));
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    sources.reserve(kBlocks);
    targets.reserve(kBlocks);
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      blocks[i] = testing::BytesOf(i, kBlockBytes);
      sources.push_back(blocks[i].data());
    }
    ASSERT_OK(Try(
        [&] { return engine_->Put({.in = space_, .keys = keys_, .sources = sources}, *queue_); }));
    EXPECT_EQ(Await().blocks_stored, kBlocks);
    std::vector<std::vector<std::byte>> found(kBlocks, std::vector<std::byte>(kBlockBytes));
    for (auto& block : found) {
      targets.push_back(block.data());
    }
    ASSERT_OK(Try(
        [&] { return engine_->Get({.in = space_, .keys = keys_, .targets = targets}, *queue_); }));
    EXPECT_EQ(Await().blocks_ready, kBlocks);
    EXPECT_EQ(found, blocks);
    named_ = {.in = space_, .keys = keys_};
    ASSERT_OK(Try([&] { return engine_->Prefetch(named_, *queue_); }));
    EXPECT_EQ(Await().blocks_ready, kBlocks);
  }

  void HoldBlocks() {
    std::vector<BlockHandle> handles(kBlocks);
    ASSERT_OK(Try([&] { return engine_->Pin(named_, *queue_); }));
    const Completion pinned = Await();
    EXPECT_OK(Try([&] { return engine_->Collect(pinned.ticket, handles); }));
    EXPECT_STATUS(Try([&] { return engine_->Collect(pinned.ticket, handles); }),
                  StatusCode::kInvalidArgument);
    const EngineCode code;
    for (BlockHandle& handle : handles) {
      handle.Release();
    }
  }

  void CallWrongly() {
    EXPECT_STATUS(Try([&] { return engine_->Prefetch({.in = {}, .keys = keys_}, *queue_); }),
                  StatusCode::kInvalidArgument);
    EXPECT_STATUS(
        Try([&] { return engine_->Put({.in = space_, .keys = keys_, .sources = {}}, *queue_); }),
        StatusCode::kInvalidArgument);
    EXPECT_STATUS(
        Try([&] { return engine_->AddNamespace(description_, {.block_bytes = 2 * kBlockBytes}); }),
        StatusCode::kInvalidArgument);
    EXPECT_STATUS(Try([&] { return engine_->CreateCompletionQueue(0); }),
                  StatusCode::kInvalidArgument);
    EXPECT_STATUS(Try([&] { return queue_->Wait(Clock::now()); }), StatusCode::kDeadlineExceeded);
  }

  void EndEarly() {
    KeysRequest late = named_;
    late.options.deadline = Clock::now() - std::chrono::seconds(1);
    ASSERT_OK(Try([&] { return engine_->Prefetch(late, *queue_); }));
    EXPECT_STATUS(Await().status, StatusCode::kDeadlineExceeded);
  }

  void Erase() {
    ASSERT_OK(Try([&] { return engine_->Erase(named_, *queue_); }));
    EXPECT_EQ(Await().blocks_ready, kBlocks);
    EXPECT_EQ(engine_->Match(space_, keys_).next_missing, MissReason::kErased);
    EXPECT_OK(Try([&] { return engine_->EraseNamespace(space_); }));
    EXPECT_STATUS(Try([&] { return engine_->EraseNamespace({}); }), StatusCode::kInvalidArgument);
  }

  const EngineOptions options_ = TinyOptions();
  const Namespace description_ = testing::NamespaceOf("model");
  const std::vector<BlockKey> keys_ = KeysOf(1, kBlocks);
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<CompletionQueue> queue_;
  NamespaceHandle space_;
  KeysRequest named_;
  std::uint32_t refusals_ = 0;
};

// A call that throws, ends the process, or has half done what it says it has not.
TEST(EngineOutOfMemoryTest, EachAllocationThatFailsIsATypedErrorAndChangesNothing) {
  std::uint64_t failing = 1;
  std::uint64_t refusals = 0;
  for (; failing < kAllocationsMax; ++failing) {
    Life life;
    testing::StartCounting(failing);
    life.Run();
    const std::uint64_t counted = testing::StopCounting();
    refusals += life.refusals();
    ASSERT_FALSE(HasFailure()) << "with allocation " << failing << " failing";
    if (counted < failing) {
      break;  // All have been tried.
    }
  }

  EXPECT_LT(failing, kAllocationsMax);
  EXPECT_GT(failing, 50U);
  // Some failures are made good inside; most are told.
  EXPECT_GT(refusals, failing / 2);
}

// Copies at once, and keeps what it was given until it is asked for.
class SynchronousCopyWorkers final : public engine::CopyWorkers {
 public:
  SynchronousCopyWorkers() { done_.reserve(1'024); }
  void Submit(engine::CopyJob& job) override {
    engine::RunCopyJob(job);
    done_.push_back(&job);
  }
  std::size_t Reap(Instant /*now*/, std::span<engine::CopyJob*> done) override {
    std::size_t count = 0;
    while (count < done.size() && !done_.empty()) {
      done[count++] = done_.back();
      done_.pop_back();
    }
    return count;
  }
  std::size_t in_flight() const noexcept override { return done_.size(); }

 private:
  std::vector<engine::CopyJob*> done_;
};

class EngineStepTest : public ::testing::TestWithParam<const char*>, private engine::RequestSink {
 protected:
  void SetUp() override {
    ASSERT_OK(namespaces_.Add(testing::NamespaceOf("model"), {.block_bytes = kBlockBytes}));
    tiers::HostSlabOptions slab_options;
    slab_options.memory.bytes = 2 << 20;
    slab_options.memory.huge_pages = tiers::HugePages::kNone;
    auto slabs = tiers::HostSlabs::Create(slab_options);
    ASSERT_OK(slabs);
    slabs_ = std::move(*slabs);
    engine::EngineCore::Options options;
    options.residents_max = 64;
    options.history_max = 64;
    options.requests_max = 8;
    options.blocks_per_request_max = kBlocks;
    options.handles_max = 16;
    options.policy = GetParam();
    auto core = engine::EngineCore::Create(
        options, {.workers = workers_, .slabs = *slabs_, .namespaces = namespaces_, .sink = *this});
    ASSERT_OK(core);
    core_ = std::move(*core);
  }

  void OnRequestDone(std::uint32_t /*request*/,
                     const Completion& completion,
                     std::uint32_t /*first_handle*/) noexcept override {
    ++ended_;
    ready_ += completion.blocks_ready;
  }

  // Until it has ended; in engine code.
  void RunCall(engine::Call::Kind kind, std::span<const BlockKey> keys) {
    engine::Call call;
    call.kind = kind;
    call.in = NamespaceHandle{0};
    call.block_bytes = kBlockBytes;
    call.deadline = Instant::max();
    call.keys = keys;
    call.sources = sources_;
    call.targets = targets_;
    const EngineCode code;
    core_->Start(0, call);
    while (core_->unfinished() > 0) {
      now_ += std::chrono::microseconds(1);
      core_->Step(now_);
    }
  }

  engine::NamespaceTable namespaces_{1};
  std::unique_ptr<tiers::HostSlabs> slabs_;
  SynchronousCopyWorkers workers_;
  std::unique_ptr<engine::EngineCore> core_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kBlockBytes);
  std::vector<const std::byte*> sources_ = std::vector<const std::byte*>(kBlocks, bytes_.data());
  std::vector<std::byte*> targets_ = std::vector<std::byte*>(kBlocks, bytes_.data());
  Instant now_;
  std::uint64_t ended_ = 0;
  std::uint64_t ready_ = 0;
};

// The mover waits for the system's allocator, or finds no memory where nobody can be told.
TEST_P(EngineStepTest, AllocatesNothing) {
  testing::StartCounting(0);
  for (std::uint64_t first = 0; first < 400; first += kBlocks) {
    const auto keys = KeysOf(first, kBlocks);
    const auto before = KeysOf(first < 40 ? 0 : first - 40, kBlocks);
    RunCall(engine::Call::Kind::kPut, keys);
    RunCall(engine::Call::Kind::kGet, before);
    RunCall(engine::Call::Kind::kPrefetch, keys);
    RunCall(engine::Call::Kind::kErase, std::span(before).first(1));
  }

  EXPECT_EQ(testing::StopCounting(), 0U);
  EXPECT_EQ(ended_, 400U);
  EXPECT_GE(ready_, 100U);
}

INSTANTIATE_TEST_SUITE_P(ByPolicy,
                         EngineStepTest,
                         ::testing::Values("leaf-lru",
                                           "lru-head-first",
                                           "arc",
                                           "s3-fifo",
                                           "lirs",
                                           "w-tinylfu",
                                           "gdsf",
                                           "2q",
                                           "lfu",
                                           "sieve",
                                           "clock",
                                           "fifo",
                                           "auto",
                                           "second-sight:leaf-lru",
                                           "adaptive:leaf-lru"),
                         [](const auto& instance) {
                           std::string name;
                           for (const char letter : std::string(instance.param)) {
                             name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter
                                                                                           : '_';
                           }
                           return name;
                         });

// Statistics that leave out what a policy takes, or tell of more than there is.
TEST(PolicyMemoryTest, EachPolicyTellsWhatItsTablesTake) {
  const PolicyOptions options{.entries_max = 50'000,
                              .residents_max = 20'000,
                              .remembered_max = 20'000,
                              .reports_forgotten = true};
  for (const std::string_view name : EvictionPolicyNames()) {
    for (const std::string_view prefix : {"", "second-sight:", "adaptive:"}) {
      SCOPED_TRACE(std::string(prefix).append(name));
      const std::string full_name = std::string(prefix).append(name);
      testing::StartCounting(0);
      const auto policy = [&] {
        const EngineCode code;
        return CreateEvictionPolicy(full_name, options);
      }();
      testing::StopCounting();
      ASSERT_OK(policy);
      const std::uint64_t told = (*policy)->memory_bytes();
      EXPECT_LE(told, testing::CountedBytes());
      // "auto" has room for pieces of paths that it does not use yet.
      if (name != "auto") {
        EXPECT_GE(told, testing::CountedBytes() / 100 * 95);
      }
      EXPECT_GE(told, std::uint64_t{8} * options.entries_max);
    }
  }
}

}  // namespace
}  // namespace kvferry
