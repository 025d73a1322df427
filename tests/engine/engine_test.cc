// The engine through its public interface, with its real threads.
#include "kvferry/engine.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvferry/block_key.h"

#include "base/memory_limit.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry {
namespace {

using testing::BytesOf;
using testing::KeyOf;
using testing::KeysOf;
using testing::NamespaceOf;

constexpr std::uint32_t kBlockBytes = 16 << 10;

EngineOptions SmallOptions() {
  EngineOptions options;
  options.host.bytes = 8 << 20;
  options.host.is_populated = false;
  options.block_bytes = kBlockBytes;
  options.copy_threads = 1;
  return options;
}

// An engine with one namespace, and calls that wait for their completion.
class EngineTest : public ::testing::Test {
 protected:
  void Open(const EngineOptions& options) {
    auto engine = Engine::Open(options);
    ASSERT_OK(engine);
    engine_ = std::move(*engine);
    auto queue = engine_->CreateCompletionQueue(64);
    ASSERT_OK(queue);
    queue_ = std::move(*queue);
    space_ = Add("model");
  }
  void SetUp() override { Open(SmallOptions()); }

  NamespaceHandle Add(const std::string& model,
                      const NamespaceOptions& options = {.block_bytes = kBlockBytes}) {
    auto handle = engine_->AddNamespace(NamespaceOf(model), options);
    EXPECT_OK(handle);
    return handle.ok() ? *handle : NamespaceHandle{};
  }

  Completion Await(const Result<Ticket>& ticket) {
    EXPECT_OK(ticket);
    if (!ticket.ok()) {
      return {};
    }
    EXPECT_OK(queue_->Wait(Clock::now() + std::chrono::seconds(60)));
    std::array<Completion, 1> done;
    EXPECT_EQ(queue_->Poll(done), 1U);
    EXPECT_EQ(done[0].ticket, *ticket);
    return done[0];
  }

  Completion Put(const std::vector<BlockKey>& keys,
                 std::uint64_t first,
                 NamespaceHandle in,
                 std::uint32_t block_bytes = kBlockBytes) {
    std::vector<std::vector<std::byte>> blocks;
    std::vector<const std::byte*> sources;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      blocks.push_back(BytesOf(first + i, block_bytes));
      sources.push_back(blocks.back().data());
    }
    return Await(engine_->Put({.in = in, .keys = keys, .sources = sources}, *queue_));
  }

  Completion Get(const std::vector<BlockKey>& keys,
                 NamespaceHandle in,
                 std::vector<std::vector<std::byte>>& blocks) {
    blocks.assign(keys.size(), std::vector<std::byte>(kBlockBytes));
    std::vector<std::byte*> targets;
    targets.reserve(blocks.size());
    for (auto& block : blocks) {
      targets.push_back(block.data());
    }
    return Await(engine_->Get({.in = in, .keys = keys, .targets = targets}, *queue_));
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<CompletionQueue> queue_;
  NamespaceHandle space_;

  void TearDown() override {
    queue_.reset();
    engine_.reset();
  }
};

TEST_F(EngineTest, OpensWithTheLeastOptionsThatAreValid) {
  EngineOptions least = SmallOptions();
  least.block_bytes = 4 << 10;
  least.host.bytes = 1 << 20;
  EXPECT_STATUS(least.Validate(), StatusCode::kInvalidArgument);
  least.host.bytes = 2 << 20;
  least.namespaces_max = least.requests_max = least.blocks_per_request_max = 1;
  least.handles_max = 1;
  least.history.blocks_max = 0;
  ASSERT_OK(least.Validate());

  EXPECT_OK(Engine::Open(least));
}

TEST_F(EngineTest, GivesBackWhatWasPut) {
  const auto keys = KeysOf(1, 20);

  const Completion put = Put(keys, 100, space_);
  std::vector<std::vector<std::byte>> blocks;
  const Completion got = Get(keys, space_, blocks);

  EXPECT_OK(put.status);
  EXPECT_EQ(put.blocks_ready, 20U);
  EXPECT_EQ(put.blocks_stored, 20U);
  EXPECT_OK(got.status);
  EXPECT_EQ(got.blocks_ready, 20U);
  EXPECT_EQ(got.next_missing, MissReason::kNone);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(blocks[i], BytesOf(100 + i, kBlockBytes)) << i;
  }
  EXPECT_EQ(engine_->Match(space_, keys).host_blocks, 20U);
}

TEST_F(EngineTest, EndsAtTheFirstMissingBlockAndSaysWhy) {
  auto keys = KeysOf(1, 4);
  Put(keys, 1, space_);
  keys.insert(keys.begin() + 2, KeyOf(99));

  std::vector<std::vector<std::byte>> blocks;
  const Completion got = Get(keys, space_, blocks);

  EXPECT_OK(got.status);
  EXPECT_EQ(got.blocks_ready, 2U);
  EXPECT_EQ(got.next_missing, MissReason::kNeverStored);
  const PrefixMatch match = engine_->Match(space_, keys);
  EXPECT_EQ(match.blocks(), 2U);
  EXPECT_EQ(match.next_missing, MissReason::kNeverStored);
}

TEST_F(EngineTest, EvictsTheLeastRecentAndRemembersIt) {
  // 512 blocks fit; twice as many are put.
  for (std::uint64_t first = 0; first < 1'024; first += 64) {
    EXPECT_EQ(Put(KeysOf(first, 64), first, space_).blocks_stored, 64U);
  }

  std::vector<std::vector<std::byte>> blocks;
  EXPECT_EQ(Get(KeysOf(0, 4), space_, blocks).next_missing, MissReason::kEvicted);
  EXPECT_EQ(Get(KeysOf(1'000, 4), space_, blocks).blocks_ready, 4U);
  const EngineStats stats = engine_->Stats();
  EXPECT_GT(stats.host.evictions, 500U);
  EXPECT_EQ(stats.lookups, stats.hits_host + 1);
}

TEST_F(EngineTest, KeepsTheRootOfAPutThatIsLongerThanThePool) {
  // What came last would push out what came first, and a path without its root is no hit.
  const auto keys = KeysOf(1, 600);

  const Completion put = Put(keys, 1, space_);

  EXPECT_EQ(put.blocks_ready, 512U);
  EXPECT_EQ(put.blocks_stored, 512U);
  EXPECT_EQ(put.next_missing, MissReason::kDropped);
  EXPECT_EQ(engine_->Match(space_, keys).host_blocks, 512U);
}

// The pool could hold them all, but half of it is held; so the last ones push out the first.
TEST_F(EngineTest, SaysThatAPutsFirstBlocksHaveLeftForItsLast) {
  queue_.reset();
  EngineOptions options = SmallOptions();
  options.host.policy = "fifo";
  Open(options);
  const auto held = KeysOf(1'000, 256);
  Put(held, 1'000, space_);
  ASSERT_EQ(Await(engine_->Pin({.in = space_, .keys = held}, *queue_)).blocks_ready, 256U);
  const auto keys = KeysOf(1, 400);

  const Completion put = Put(keys, 1, space_);

  EXPECT_OK(put.status);
  EXPECT_EQ(put.blocks_stored, 400U);
  EXPECT_EQ(put.blocks_ready, 0U);
  EXPECT_EQ(put.next_missing, MissReason::kEvicted);
  EXPECT_EQ(engine_->Match(space_, keys).next_missing, MissReason::kEvicted);
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.puts, 656U);
  EXPECT_EQ(stats.puts_stored, 656U);
  const auto last = std::span(keys).last(10);
  EXPECT_EQ(engine_->Match(space_, last).host_blocks, 10U);
}

TEST_F(EngineTest, KeepsPinnedBlocksWhileTheirHandlesLive) {
  const auto keys = KeysOf(1, 3);
  Put(keys, 1, space_);
  const Completion pinned = Await(engine_->Pin({.in = space_, .keys = keys}, *queue_));
  std::vector<BlockHandle> handles(3);
  ASSERT_EQ(pinned.blocks_ready, 3U);
  ASSERT_OK(engine_->Collect(pinned.ticket, handles));
  EXPECT_STATUS(engine_->Collect(pinned.ticket, handles), StatusCode::kInvalidArgument);

  for (std::uint64_t first = 1'000; first < 3'000; first += 64) {
    Put(KeysOf(first, 64), first, space_);
  }

  for (std::size_t i = 0; i < 3; ++i) {
    const auto expected = BytesOf(1 + i, kBlockBytes);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), handles[i].bytes().begin()));
  }
  handles.clear();
}

// The share is what the page says to the byte, not what a rounded hundredth makes of it.
TEST_F(EngineTest, HoldsExactlyItsShare) {
  const auto keys = KeysOf(1, 257);
  Put(keys, 1, space_);

  const Completion half =
      Await(engine_->Pin({.in = space_, .keys = std::span(keys).first(256)}, *queue_));
  EXPECT_OK(half.status);
  EXPECT_EQ(half.blocks_ready, 256U);
  engine_->Discard(half.ticket);
  const Completion more = Await(engine_->Pin({.in = space_, .keys = keys}, *queue_));
  EXPECT_EQ(more.status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(more.blocks_ready, 256U);
  EXPECT_EQ(more.next_missing, MissReason::kOverQuota);
  EXPECT_EQ(more.status.message(),
            "keys[256] of a Pin of 257 blocks of 16.0 KiB cannot be held: host.held_percent lets "
            "handles keep 4.00 MiB, and they keep 4.00 MiB, those of this Pin included; release "
            "handles, Discard pins that will not be collected, pin fewer blocks, or raise "
            "host.held_percent or host.bytes");
}

TEST_F(EngineTest, SaysThatHandlesAreUsedUp) {
  queue_.reset();
  EngineOptions options = SmallOptions();
  options.handles_max = 2;
  Open(options);
  const auto keys = KeysOf(1, 3);
  Put(keys, 1, space_);

  const Completion pinned = Await(engine_->Pin({.in = space_, .keys = keys}, *queue_));

  EXPECT_EQ(pinned.status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(pinned.blocks_ready, 2U);
  EXPECT_EQ(pinned.next_missing, MissReason::kOverQuota);
  EXPECT_THAT(std::string(pinned.status.message()),
              ::testing::StartsWith("keys[2] of a Pin of 3 blocks of 16.0 KiB cannot be held: all "
                                    "2 handles are in use, those of this Pin included; "));
}

TEST_F(EngineTest, CollectsIntoEmptyHandlesOnly) {
  const auto keys = KeysOf(1, 2);
  Put(keys, 1, space_);
  const Completion first = Await(engine_->Pin({.in = space_, .keys = keys}, *queue_));
  const Completion second = Await(engine_->Pin({.in = space_, .keys = keys}, *queue_));
  std::vector<BlockHandle> handles(2);
  ASSERT_OK(engine_->Collect(first.ticket, handles));

  EXPECT_STATUS(engine_->Collect(second.ticket, handles), StatusCode::kInvalidArgument);
  EXPECT_FALSE(handles[0].is_empty());

  handles.clear();
  handles.resize(2);
  EXPECT_OK(engine_->Collect(second.ticket, handles));
}

TEST_F(EngineTest, ErasesKeysAndNamespaces) {
  const auto keys = KeysOf(1, 8);
  const NamespaceHandle other = Add("other");
  Put(keys, 1, space_);
  Put(KeysOf(50, 4), 50, other);

  const std::vector<BlockKey> some(keys.begin(), keys.begin() + 2);
  const Completion erased = Await(engine_->Erase({.in = space_, .keys = some}, *queue_));
  EXPECT_EQ(erased.blocks_ready, 2U);
  EXPECT_EQ(engine_->Match(space_, keys).next_missing, MissReason::kErased);

  ASSERT_OK(engine_->EraseNamespace(space_));
  EXPECT_EQ(engine_->Match(space_, std::span(keys).subspan(2)).blocks(), 0U);
  EXPECT_EQ(engine_->Match(other, KeysOf(50, 4)).blocks(), 4U);
  EXPECT_EQ(Put(keys, 7, space_).blocks_stored, 8U);
  std::vector<std::vector<std::byte>> blocks;
  EXPECT_EQ(Get(keys, space_, blocks).blocks_ready, 8U);
  EXPECT_EQ(blocks[3], BytesOf(10, kBlockBytes));
}

TEST_F(EngineTest, DoesNotServeAnotherNamespacesBlock) {
  const auto keys = KeysOf(1, 2);
  const NamespaceHandle other = Add("other");
  Put(keys, 1, space_);

  EXPECT_EQ(engine_->Match(other, keys).next_missing, MissReason::kOtherNamespace);
  std::vector<std::vector<std::byte>> blocks;
  EXPECT_EQ(Get(keys, other, blocks).next_missing, MissReason::kOtherNamespace);
}

TEST_F(EngineTest, EvictsNobodyForABlockThatTheQuotaCannotHold) {
  constexpr std::uint32_t kQuota = 32 * kBlockBytes;
  const NamespaceHandle small =
      Add("small", {.block_bytes = kBlockBytes, .tenant = 1, .host_quota_bytes = kQuota});
  const NamespaceHandle large =
      Add("large", {.block_bytes = 2 * kQuota, .tenant = 1, .host_quota_bytes = kQuota});
  Put(KeysOf(1, 32), 1, small);

  const Completion put = Put(KeysOf(500, 1), 500, large, 2 * kQuota);

  EXPECT_OK(put.status);
  EXPECT_EQ(put.next_missing, MissReason::kOverQuota);
  EXPECT_EQ(engine_->Match(small, KeysOf(1, 32)).blocks(), 32U);
}

TEST_F(EngineTest, RefusesWhatIsWrongWithARequest) {
  const auto keys = KeysOf(1, 2);
  std::vector<std::byte> block(kBlockBytes);
  const std::vector<const std::byte*> one{block.data()};
  const std::vector<const std::byte*> null{block.data(), nullptr};

  EXPECT_STATUS(engine_->Put({.in = space_, .keys = keys, .sources = one}, *queue_),
                StatusCode::kInvalidArgument);
  EXPECT_STATUS(engine_->Put({.in = space_, .keys = keys, .sources = null}, *queue_),
                StatusCode::kInvalidArgument);
  EXPECT_STATUS(engine_->Prefetch({.in = {}, .keys = keys}, *queue_), StatusCode::kInvalidArgument);
  KeysRequest of_no_tier{.in = space_, .keys = keys};
  of_no_tier.options.tiers.bits = 0xff;
  EXPECT_STATUS(engine_->Prefetch(of_no_tier, *queue_), StatusCode::kInvalidArgument);
  EXPECT_STATUS(engine_->Erase({.in = space_, .keys = {}}, *queue_), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->Match({}, keys), (PrefixMatch{.next_missing = MissReason::kOtherNamespace}));
  EXPECT_EQ(engine_->Match({}, {}), PrefixMatch{});
}

// One null among thousands of addresses is found by its number only.
TEST_F(EngineTest, SaysWhichAddressIsNull) {
  const auto keys = KeysOf(1, 3);
  std::vector<std::byte> block(kBlockBytes);
  const std::vector<const std::byte*> sources{block.data(), block.data(), nullptr};
  const std::vector<std::byte*> targets{block.data(), nullptr, nullptr};

  const auto put = engine_->Put({.in = space_, .keys = keys, .sources = sources}, *queue_);
  const auto get = engine_->Get({.in = space_, .keys = keys, .targets = targets}, *queue_);

  EXPECT_STATUS(put, StatusCode::kInvalidArgument);
  EXPECT_EQ(put.status().message(),
            "sources[2] of 3 is null, for block " + ToHex(keys[2]) + "; give the block's address");
  EXPECT_STATUS(get, StatusCode::kInvalidArgument);
  EXPECT_EQ(get.status().message(),
            "targets[1] of 3 is null, for block " + ToHex(keys[1]) + "; give the block's address");
}

// Memory beyond what there is would be granted, and the process ended when it is touched.
TEST_F(EngineTest, RefusesAPoolBeyondWhatTheProcessMayUse) {
  const auto machine = ReadMachineMemory();
  ASSERT_OK(machine);
  for (const HugePages pages : {HugePages::kTransparent, HugePages::kReserved}) {
    EngineOptions options = SmallOptions();
    options.host.huge_pages = pages;
    options.host.bytes = machine->bytes + 1;
    options.block_bytes = 64 << 20;

    const auto opened = Engine::Open(options);

    EXPECT_STATUS(opened, StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(opened.status().message()),
                ::testing::AllOf(
                    ::testing::StartsWith("host.bytes is " + std::to_string(options.host.bytes)),
                    ::testing::HasSubstr("but the process may use "),
                    ::testing::HasSubstr("; lower host.bytes, or raise that limit")));
  }
}

TEST_F(EngineTest, KeepsHeldBlocksBeyondItsEnd) {
  const auto keys = KeysOf(1, 3);
  Put(keys, 1, space_);
  const Completion pinned = Await(engine_->Pin({.in = space_, .keys = keys}, *queue_));
  std::vector<BlockHandle> handles(3);
  ASSERT_OK(engine_->Collect(pinned.ticket, handles));
  queue_.reset();
  ASSERT_OK(engine_->Close());
  handles[0].Release();
  engine_.reset();

  const auto expected = BytesOf(2, kBlockBytes);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), handles[1].bytes().begin()));
  handles[1].Release();
  BlockHandle last = std::move(handles[2]);
  EXPECT_EQ(last.bytes().size(), kBlockBytes);
}

// A function that returns early has its queue destroyed before the memory that its requests name.
TEST_F(EngineTest, EndsTheRequestsOfAQueueThatGoes) {
  const auto keys = KeysOf(1, 256);
  Put(keys, 1, space_);
  const std::vector<std::byte> source = BytesOf(7, kBlockBytes);
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto fresh = KeysOf(1'000 + 64 * round, 64);
    const std::vector<const std::byte*> sources(fresh.size(), source.data());
    std::vector<std::byte> target(kBlockBytes);
    const std::vector<std::byte*> targets(keys.size(), target.data());
    auto queue = engine_->CreateCompletionQueue(3);
    ASSERT_OK(queue);
    ASSERT_OK(engine_->Put({.in = space_, .keys = fresh, .sources = sources}, **queue));
    ASSERT_OK(engine_->Pin({.in = space_, .keys = keys}, **queue));
    ASSERT_OK(engine_->Get({.in = space_, .keys = keys, .targets = targets}, **queue));

    queue->reset();
    std::fill(target.begin(), target.end(), std::byte{0});
    EXPECT_EQ(std::count(target.begin(), target.end(), std::byte{0}), kBlockBytes) << round;
  }

  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.requests_started, stats.requests_ended);
  // What the pins held is let go of soon after.
  const Instant give_up_at = Clock::now() + std::chrono::seconds(60);
  while (engine_->Stats().host.blocks_held > 0 && Clock::now() < give_up_at) {
    std::this_thread::yield();
  }
  EXPECT_EQ(engine_->Stats().host.blocks_held, 0U);
  EXPECT_EQ(Put(KeysOf(9'000, 4), 9'000, space_).blocks_ready, 4U);
}

TEST_F(EngineTest, TellsOfEndsInAQueueThatOutlivesIt) {
  const auto keys = KeysOf(1, 1);
  const auto pin = engine_->Pin({.in = space_, .keys = keys}, *queue_);
  ASSERT_OK(pin);
  engine_.reset();

  const Completion ended = Await(pin);
  EXPECT_EQ(ended.blocks_ready, 0U);
  queue_.reset();
}

TEST_F(EngineTest, RefusesAnotherEnginesQueue) {
  const auto other = Engine::Open(SmallOptions());
  ASSERT_OK(other);
  const auto queue = (*other)->CreateCompletionQueue(1);
  ASSERT_OK(queue);

  const auto refused = engine_->Erase({.in = space_, .keys = KeysOf(1, 1)}, **queue);
  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().message(),
            "the completion queue is another engine's; this one's CreateCompletionQueue gives its "
            "own");
}

TEST_F(EngineTest, RefusesRequestsOnceItIsClosed) {
  ASSERT_OK(engine_->Close());

  EXPECT_STATUS(engine_->AddNamespace(NamespaceOf("late"), {.block_bytes = kBlockBytes}),
                StatusCode::kUnavailable);
  EXPECT_STATUS(engine_->EraseNamespace(space_), StatusCode::kUnavailable);

  EXPECT_STATUS(engine_->Erase({.in = space_, .keys = KeysOf(1, 1)}, *queue_),
                StatusCode::kUnavailable);
  EXPECT_STATUS(engine_->CreateCompletionQueue(1), StatusCode::kUnavailable);
  EXPECT_EQ(engine_->Stats().requests_refused, 0U);
  EXPECT_OK(engine_->Close());
}

}  // namespace
}  // namespace kvferry
