// What has gone wrong for people who run such caches, as scenarios for the engine.
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/engine.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry {
namespace {

using testing::BytesOf;
using testing::KeyOf;
using testing::KeysOf;
using testing::NamespaceOf;

constexpr std::uint32_t kBlockBytes = 32 << 10;
constexpr std::uint32_t kBlocksInHost = 64;

using Blocks = std::vector<std::vector<std::byte>>;

// An engine for 64 blocks, and calls that wait for their end.
class FieldReportsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.host.bytes = std::uint64_t{kBlocksInHost} * kBlockBytes;
    options.host.huge_pages = HugePages::kNone;
    options.block_bytes = kBlockBytes;
    options.copy_threads = 1;
    auto engine = Engine::Open(options);
    ASSERT_OK(engine);
    engine_ = std::move(*engine);
    auto queue = engine_->CreateCompletionQueue(256);
    ASSERT_OK(queue);
    queue_ = std::move(*queue);
    space_ = Add(NamespaceOf("model"));
  }
  void TearDown() override {
    queue_.reset();
    engine_.reset();
  }

  NamespaceHandle Add(const Namespace& description) {
    auto added = engine_->AddNamespace(description, {.block_bytes = kBlockBytes});
    EXPECT_OK(added);
    return added.ok() ? *added : NamespaceHandle{};
  }

  // The next one to end.
  Completion Next() {
    EXPECT_OK(queue_->Wait(Clock::now() + std::chrono::seconds(60)));
    std::array<Completion, 1> done;
    EXPECT_EQ(queue_->Poll(done), 1U);
    return done[0];
  }
  Completion Await(const Result<Ticket>& ticket) {
    EXPECT_OK(ticket);
    return ticket.ok() ? Next() : Completion{};
  }

  // Blocks whose bytes follow from `first` on.
  Completion Put(const std::vector<BlockKey>& keys, std::uint64_t first) {
    return PutInto(space_, keys, first);
  }
  Completion PutInto(NamespaceHandle in, const std::vector<BlockKey>& keys, std::uint64_t first) {
    Blocks blocks;
    std::vector<const std::byte*> sources;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      blocks.push_back(BytesOf(first + i, kBlockBytes));
    }
    for (const auto& block : blocks) {
      sources.push_back(block.data());
    }
    return Await(engine_->Put({.in = in, .keys = keys, .sources = sources}, *queue_));
  }

  Completion Get(const std::vector<BlockKey>& keys, Blocks& blocks) {
    return GetFrom(space_, keys, blocks);
  }
  Completion GetFrom(NamespaceHandle in, const std::vector<BlockKey>& keys, Blocks& blocks) {
    blocks.assign(keys.size(), std::vector<std::byte>(kBlockBytes));
    std::vector<std::byte*> targets;
    for (auto& block : blocks) {
      targets.push_back(block.data());
    }
    return Await(engine_->Get({.in = in, .keys = keys, .targets = targets}, *queue_));
  }

  // Fills the pool twice over with blocks that nobody asks for.
  void Flood(std::uint64_t first) {
    for (std::uint64_t i = 0; i < std::uint64_t{2} * kBlocksInHost; i += 16) {
      Put(KeysOf(first + i, 16), first + i);
    }
  }

  void ExpectSums() {
    const EngineStats stats = engine_->Stats();
    EXPECT_EQ(stats.lookups,
              stats.hits_host +
                  std::accumulate(stats.misses.begin(), stats.misses.end(), std::uint64_t{0}));
    EXPECT_EQ(stats.puts, stats.puts_stored + stats.puts_present +
                              std::accumulate(stats.puts_refused.begin(), stats.puts_refused.end(),
                                              std::uint64_t{0}));
    EXPECT_EQ(stats.host.bytes_total, stats.host.bytes_free + stats.host.bytes_resident +
                                          stats.host.bytes_filling + stats.host.bytes_draining);
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<CompletionQueue> queue_;
  NamespaceHandle space_;
};

// Several callers that store one key at once leave it doubled, empty, or with mixed bytes.
TEST_F(FieldReportsTest, OneKeyPutByManyAtOnceIsStoredOnce) {
  constexpr std::uint32_t kCallers = 8;
  const auto keys = KeysOf(1, 1);
  const auto block = BytesOf(7, kBlockBytes);
  const std::array<const std::byte*, 1> sources{block.data()};
  for (std::uint32_t caller = 0; caller < kCallers; ++caller) {
    ASSERT_OK(engine_->Put({.in = space_, .keys = keys, .sources = sources}, *queue_));
  }

  std::uint32_t stored = 0;
  for (std::uint32_t caller = 0; caller < kCallers; ++caller) {
    const Completion ended = Next();
    EXPECT_EQ(ended.blocks_ready, 1U);
    stored += ended.blocks_stored;
  }

  EXPECT_EQ(stored, 1U);
  EXPECT_EQ(engine_->Stats().host.blocks_resident, 1U);
  Blocks found;
  EXPECT_EQ(Get(keys, found).blocks_ready, 1U);
  EXPECT_EQ(found[0], block);
}

// One key twice in a request, or one that is there already, fails the blocks around it.
TEST_F(FieldReportsTest, DuplicatesInABatchCostTheOthersNothing) {
  auto keys = KeysOf(1, 6);
  Put({keys[1]}, 2);
  keys.insert(keys.begin() + 4, keys[3]);

  // The doubled key's second bytes are those of its neighbour, and are not taken.
  const Completion put = Put(keys, 1);

  EXPECT_OK(put.status);
  EXPECT_EQ(put.blocks_ready, 7U);
  EXPECT_EQ(put.blocks_stored, 5U);
  Blocks found;
  EXPECT_EQ(Get(KeysOf(1, 6), found).blocks_ready, 6U);
  EXPECT_EQ(found[3], BytesOf(4, kBlockBytes));
}

// A look-up is taken for a promise, and the caller goes on with blocks that have left since.
TEST_F(FieldReportsTest, AGetAfterALookUpMayBeShorterAndSaysSo) {
  const auto keys = KeysOf(1, 8);
  Put(keys, 1);
  ASSERT_EQ(engine_->Match(space_, keys).blocks(), 8U);

  Flood(1'000);

  Blocks found;
  const Completion got = Get(keys, found);
  EXPECT_OK(got.status);
  EXPECT_EQ(got.blocks_ready, 0U);
  EXPECT_EQ(got.next_missing, MissReason::kEvicted);
}

// With a pin, what was promised is what comes, whatever else is stored meanwhile.
TEST_F(FieldReportsTest, APinnedPrefixIsThereInFullAfterAFlood) {
  const auto keys = KeysOf(1, 8);
  Put(keys, 1);
  const Completion pinned = Await(engine_->Pin({.in = space_, .keys = keys}, *queue_));
  ASSERT_EQ(pinned.blocks_ready, 8U);

  Flood(1'000);

  Blocks found;
  EXPECT_EQ(Get(keys, found).blocks_ready, 8U);
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(found[i], BytesOf(1 + i, kBlockBytes));
  }
  engine_->Discard(pinned.ticket);
}

// A block that one caller reads is erased by another: an error where a miss would do, or old bytes.
TEST_F(FieldReportsTest, ErasedWhileItIsReadIsAHitOrAMiss) {
  const auto keys = KeysOf(1, 4);
  for (std::uint32_t round = 0; round < 50; ++round) {
    Put(keys, 1);
    Blocks found(4, std::vector<std::byte>(kBlockBytes));
    std::vector<std::byte*> targets;
    for (auto& block : found) {
      targets.push_back(block.data());
    }
    const auto get = engine_->Get({.in = space_, .keys = keys, .targets = targets}, *queue_);
    const auto erase = engine_->Erase({.in = space_, .keys = keys}, *queue_);
    ASSERT_OK(get);
    ASSERT_OK(erase);

    for (const Completion& ended : {Next(), Next()}) {
      EXPECT_OK(ended.status);
      for (std::uint32_t i = 0; ended.ticket == *get && i < ended.blocks_ready; ++i) {
        EXPECT_EQ(found[i], BytesOf(1 + i, kBlockBytes));
      }
    }
  }
}

// Pins that nobody goes on with stay for ever, and the pool's hit rate decays.
TEST_F(FieldReportsTest, PinsEndWithTheirOwnerHoweverItEnds) {
  const auto keys = KeysOf(1, 4);
  Put(keys, 1);
  for (std::uint32_t round = 0; round < 300; ++round) {
    const Completion pinned = Await(engine_->Pin({.in = space_, .keys = keys}, *queue_));
    ASSERT_EQ(pinned.blocks_ready, 4U);
    if (round % 2 == 0) {
      engine_->Discard(pinned.ticket);
    } else {
      std::vector<BlockHandle> handles(4);
      ASSERT_OK(engine_->Collect(pinned.ticket, handles));
    }
  }

  Flood(1'000);

  EXPECT_EQ(engine_->Stats().host.blocks_held, 0U);
  EXPECT_EQ(engine_->Match(space_, keys).blocks(), 0U);
}

// Asking what is there protects it, and whoever asks much keeps others from storing.
TEST_F(FieldReportsTest, LookUpsProtectNothing) {
  Flood(1'000);
  const auto resident = KeysOf(1'064, 64);
  for (std::uint32_t probe = 0; probe < 1'000; ++probe) {
    static_cast<void>(engine_->Match(space_, resident));
  }

  EXPECT_EQ(Put(KeysOf(1, 48), 1).blocks_stored, 48U);
  EXPECT_EQ(engine_->Match(space_, KeysOf(1, 48)).blocks(), 48U);
}

// A request with nothing new to store waits for transfers that were never begun.
TEST_F(FieldReportsTest, APutOfWhatIsThereEndsAtOnce) {
  const auto keys = KeysOf(1, 8);
  Put(keys, 1);

  for (std::uint32_t round = 0; round < 100; ++round) {
    const Completion put = Put(keys, 1);
    EXPECT_OK(put.status);
    EXPECT_EQ(put.blocks_ready, 8U);
    EXPECT_EQ(put.blocks_stored, 0U);
  }

  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.requests_started, stats.requests_ended);
}

// A pool that is far smaller than what is put ends the process, or waits for room for ever.
TEST_F(FieldReportsTest, APutOfFarMoreThanFitsEndsAndSaysWhatWasStored) {
  const auto keys = KeysOf(1, std::size_t{4} * kBlocksInHost);

  const Completion put = Put(keys, 1);

  EXPECT_OK(put.status);
  EXPECT_LE(put.blocks_ready, put.blocks_stored);
  EXPECT_GT(put.blocks_stored, 0U);
  EXPECT_LE(engine_->Stats().host.blocks_resident, kBlocksInHost);
  ExpectSums();
}

// Held blocks fill the pool, and a put spins instead of being told that there is no room.
TEST_F(FieldReportsTest, APutIntoAPoolThatIsHeldEndsWithAReason) {
  const auto held = KeysOf(1, kBlocksInHost / 4);
  Put(held, 1);
  const Completion pinned = Await(engine_->Pin({.in = space_, .keys = held}, *queue_));
  ASSERT_EQ(pinned.blocks_ready, held.size());

  // Three quarters of the pool are left, for one path that is more than twice as long.
  const Completion put = Put(KeysOf(1'000, std::size_t{2} * kBlocksInHost), 1'000);

  EXPECT_OK(put.status);
  EXPECT_EQ(engine_->Match(space_, held).blocks(), held.size());
  engine_->Discard(pinned.ticket);
  ExpectSums();
}

// Another revision of the weights under the same name finds the blocks of the old one.
TEST_F(FieldReportsTest, AnotherRevisionOrAdapterFindsNothing) {
  const auto keys = KeysOf(1, 4);
  Put(keys, 1);
  Namespace revised = NamespaceOf("model");
  revised.model_revision = "2";
  Namespace adapted = NamespaceOf("model");
  adapted.lora_id = "adapter";
  adapted.lora_digest = "1";
  Namespace retrained = adapted;
  retrained.lora_digest = "2";
  Namespace relaid = NamespaceOf("model");
  relaid.layout = "LBNHC";

  for (const Namespace& other : {revised, adapted, retrained, relaid}) {
    Blocks found;
    const NamespaceHandle in = Add(other);
    EXPECT_NE(in, space_);
    EXPECT_EQ(engine_->Match(in, keys).blocks(), 0U);
    EXPECT_EQ(GetFrom(in, keys, found).blocks_ready, 0U);
  }
}

// Weights are replaced in place, and what was computed with the old ones is still served.
TEST_F(FieldReportsTest, NothingFromBeforeANamespaceWasErasedIsServed) {
  const auto keys = KeysOf(1, 8);
  Blocks old_blocks;
  std::vector<const std::byte*> sources;
  for (std::uint64_t i = 0; i < 8; ++i) {
    old_blocks.push_back(BytesOf(i, kBlockBytes));
  }
  for (const auto& block : old_blocks) {
    sources.push_back(block.data());
  }
  // Under way when the namespace is erased, or done: nobody may see it afterwards.
  const auto put = engine_->Put({.in = space_, .keys = keys, .sources = sources}, *queue_);

  ASSERT_OK(engine_->EraseNamespace(space_));
  EXPECT_EQ(engine_->Match(space_, keys).blocks(), 0U);
  Await(put);
  EXPECT_EQ(engine_->Match(space_, keys).blocks(), 0U);

  EXPECT_EQ(Put(keys, 500).blocks_stored, 8U);
  Blocks found;
  EXPECT_EQ(Get(keys, found).blocks_ready, 8U);
  EXPECT_EQ(found[0], BytesOf(500, kBlockBytes));
}

// Keys that agree in all but their last byte, as a short hash would make them, give each other's
// blocks.
TEST_F(FieldReportsTest, KeysAreComparedInFull) {
  std::vector<BlockKey> keys(16, KeyOf(1));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i].bytes.back() = static_cast<std::byte>(i);
  }
  Put(keys, 1);

  BlockKey absent = keys[0];
  absent.bytes.back() = std::byte{200};
  EXPECT_EQ(engine_->Match(space_, {{absent}}).blocks(), 0U);
  Blocks found;
  EXPECT_EQ(Get(keys, found).blocks_ready, 16U);
  for (std::uint64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(found[i], BytesOf(1 + i, kBlockBytes));
  }
}

// A prefetch without anything to do, or of nothing that is there, never ends.
TEST_F(FieldReportsTest, EachPrefetchEndsAndTellsTheTruth) {
  const auto keys = KeysOf(1, 4);

  const Completion absent = Await(engine_->Prefetch({.in = space_, .keys = keys}, *queue_));
  EXPECT_OK(absent.status);
  EXPECT_EQ(absent.blocks_ready, 0U);
  EXPECT_EQ(absent.next_missing, MissReason::kNeverStored);

  Put(keys, 1);
  const Completion present = Await(engine_->Prefetch({.in = space_, .keys = keys}, *queue_));
  EXPECT_EQ(present.blocks_ready, 4U);
  EXPECT_EQ(present.next_missing, MissReason::kNone);
}

// A deadline that has passed is only looked at when something else happens.
TEST_F(FieldReportsTest, ARequestWhoseDeadlineHasPassedEnds) {
  const auto keys = KeysOf(1, 4);
  Put(keys, 1);
  RequestOptions late;
  late.deadline = Clock::now() - std::chrono::milliseconds(1);

  const Completion ended =
      Await(engine_->Pin({.in = space_, .keys = keys, .options = late}, *queue_));

  EXPECT_STATUS(ended.status, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine_->Stats().host.blocks_held, 0U);
}

// A request that is cancelled in any state leaves a place behind, or gives one back twice.
TEST_F(FieldReportsTest, CancelledRequestsGiveTheirPlacesBackOnce) {
  const auto block = BytesOf(1, kBlockBytes);
  for (std::uint64_t round = 0; round < 500; ++round) {
    const auto keys = KeysOf(round * 4, 4);
    const std::vector<const std::byte*> sources(4, block.data());
    const auto put = engine_->Put({.in = space_, .keys = keys, .sources = sources}, *queue_);
    ASSERT_OK(put);
    engine_->Cancel(*put);
    engine_->Cancel(*put);
    const Completion ended = Next();
    EXPECT_EQ(ended.ticket, *put);
    EXPECT_TRUE(ended.status.ok() || ended.status.code() == StatusCode::kCancelled);
  }

  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.host.bytes_filling, 0U);
  EXPECT_EQ(stats.host.bytes_draining, 0U);
  ExpectSums();
}

// A ticket whose request has ended cancels the one that has its place now.
TEST_F(FieldReportsTest, AStaleTicketReachesNobody) {
  const auto keys = KeysOf(1, 1);
  Put(keys, 1);
  const auto first = engine_->Prefetch({.in = space_, .keys = keys}, *queue_);
  ASSERT_OK(first);
  Next();

  for (std::uint32_t round = 0; round < 500; ++round) {
    const auto next = engine_->Prefetch({.in = space_, .keys = keys}, *queue_);
    ASSERT_OK(next);
    engine_->Cancel(*first);
    engine_->Discard(*first);
    EXPECT_OK(Next().status);
  }
}

// One block that is put again and again is reserved again each time, until the tier is full.
TEST_F(FieldReportsTest, PutOfOneKeyAgainAndAgainTakesOnePlace) {
  const auto keys = KeysOf(1, 1);
  Put(keys, 1);
  const std::uint64_t used = engine_->Stats().host.bytes_resident;

  for (std::uint32_t round = 0; round < 1'000; ++round) {
    Put(keys, 1);
  }

  EXPECT_EQ(engine_->Stats().host.bytes_resident, used);
  EXPECT_EQ(engine_->Stats().puts_present, 1'000U);
}

// A hit is counted again when the completion is polled, or at each of its blocks' steps.
TEST_F(FieldReportsTest, EachBlockAskedForIsCountedOnce) {
  const auto keys = KeysOf(1, 10);
  Put(keys, 1);

  Blocks found;
  Get(keys, found);
  std::array<Completion, 4> none;
  EXPECT_EQ(queue_->Poll(none), 0U);

  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.lookups, 10U);
  EXPECT_EQ(stats.hits_host, 10U);
  ExpectSums();
}

// Numbers that are kept on two sides drift apart, and one of them goes below nothing.
TEST_F(FieldReportsTest, TheBooksBalanceAfterEveryCall) {
  for (std::uint64_t round = 0; round < 200; ++round) {
    const auto keys = KeysOf(round * 7 % 90, 1 + round % 9);
    Blocks found;
    switch (round % 4) {
      case 0:
      case 1:
        Put(keys, round * 7 % 90);
        break;
      case 2:
        Get(keys, found);
        break;
      default:
        Await(engine_->Erase({.in = space_, .keys = keys}, *queue_));
    }
    ExpectSums();
  }
}

// An engine that is dropped without a word hangs, with work under way or pins that nobody took.
TEST_F(FieldReportsTest, AnEngineMayGoWithoutBeingClosed) {
  const auto keys = KeysOf(1, 16);
  Put(keys, 1);
  Await(engine_->Pin({.in = space_, .keys = keys}, *queue_));
  ASSERT_OK(engine_->Prefetch({.in = space_, .keys = keys}, *queue_));
  Next();

  queue_.reset();
  engine_.reset();

  SUCCEED();
}

}  // namespace
}  // namespace kvferry
