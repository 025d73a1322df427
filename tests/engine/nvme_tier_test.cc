// The engine with an NVMe tier on real files: what a restart finds, and what it must not find.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/engine.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"
#include "tests/support/tier_engine.h"

namespace kvferry {
namespace {

using testing::KeyOf;
using testing::KeysOf;
using testing::TierEngine;

constexpr std::uint32_t kBlockBytes = TierEngine::kBlockBytes;

class NvmeTierTest : public ::testing::TestWithParam<NvmeIo>, public TierEngine {
 protected:
  void SetUp() override { options.nvme.io = GetParam(); }
  // Writes something else over the beginnings of these blocks, wherever they lie.
  void Damage(const std::vector<std::uint64_t>& numbers) {
    const int file = ::open(DataFile().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    std::vector<std::byte> page(4096);
    const std::vector<std::byte> garbage(page.size(), std::byte{0x5a});
    std::vector<std::vector<std::byte>> blocks;
    blocks.reserve(numbers.size());
    for (const std::uint64_t number : numbers) {
      blocks.push_back(testing::BytesOf(number, kBlockBytes));
    }
    std::size_t found = 0;
    for (off_t at = 0;
         ::pread(file, page.data(), page.size(), at) == static_cast<ssize_t>(page.size());
         at += static_cast<off_t>(page.size())) {
      for (const std::vector<std::byte>& block : blocks) {
        if (std::equal(page.begin(), page.end(), block.begin())) {
          EXPECT_EQ(::pwrite(file, garbage.data(), garbage.size(), at), 4096);
          ++found;
        }
      }
    }
    ::close(file);
    ASSERT_EQ(found, numbers.size());
  }
};

TEST_P(NvmeTierTest, WhatIsPersistedIsThereAfterAClose) {
  OpenEngine();
  Put(0, 20);
  const Completion done = Persist(0, 20);
  ASSERT_OK(done.status);
  EXPECT_EQ(done.blocks_ready, 20U);
  CloseEngine();

  OpenEngine();
  EXPECT_GE(engine->Stats().nvme_store.blocks_found, 20U);
  EXPECT_EQ(CountOf(0, 20), 20U);
  EXPECT_EQ(engine->Stats().hits_nvme, 20U);
}

// Nothing else wakes the engine meanwhile.
TEST_P(NvmeTierTest, PersistsWhatIsDurableAlreadyWhileNothingElseGoesOn) {
  OpenEngine();
  std::uint64_t first = 0;
  for (const std::size_t count : {1U, 65U}) {
    Put(first, count);
    const auto are_written = [&] {
      return engine->Stats().nvme.blocks_resident == first + count;
    };
    ASSERT_TRUE(Comes(are_written, 30));
    EXPECT_STATUS(queue->Wait(Clock::now() + std::chrono::milliseconds(500)),
                  StatusCode::kDeadlineExceeded);
    const std::vector<BlockKey> keys = KeysOf(first, count);
    KeysRequest request{.in = space, .keys = keys};
    request.options.deadline = Clock::now() + std::chrono::seconds(5);

    const Completion done = Await(engine->Persist(request, *queue));

    EXPECT_OK(done.status);
    EXPECT_EQ(done.blocks_ready, count);
    first += count;
  }
}

TEST_P(NvmeTierTest, WhatIsPersistedIsThereAfterAKill) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    OpenEngine();
    Put(0, 10);
    const bool is_good = Persist(0, 10).blocks_ready == 10 && !HasFailure();
    ::kill(is_good ? ::getpid() : ::getppid(), is_good ? SIGKILL : 0);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

  OpenEngine();
  EXPECT_EQ(CountOf(0, 10), 10U);
}

TEST_P(NvmeTierTest, PersistedBlocksOutliveTheirSegments) {
  OpenEngine();
  Put(0, 40);
  ASSERT_EQ(Persist(0, 40).blocks_ready, 40U);
  for (std::uint64_t round = 0; round < 80; ++round) {  // 80 MiB through a tier of 56.
    const std::uint64_t first = 1'000 + 16 * round;
    Put(first, 16);
    EXPECT_EQ(Persist(first, 16).blocks_ready, 16U);
    const std::vector<BlockKey> keys = KeysOf(first, 16);
    EXPECT_OK(Await(engine->Unpersist({.in = space, .keys = keys}, *queue)).status);
  }

  EXPECT_GT(engine->Stats().nvme_store.segments_reused, 0U);
  EXPECT_EQ(CountOf(0, 40), 40U);
  EXPECT_LE(std::filesystem::file_size(DataFile()), options.nvme.capacity_bytes);
  CloseEngine();
  OpenEngine();
  EXPECT_EQ(CountOf(0, 40), 40U);
}

TEST_P(NvmeTierTest, WhatIsErasedIsNotFoundAgain) {
  OpenEngine();
  Put(0, 8);
  ASSERT_EQ(Persist(0, 8).blocks_ready, 8U);
  ASSERT_OK(Erase(KeysOf(0, 4)));
  CloseEngine();

  OpenEngine();
  EXPECT_EQ(CountOf(0, 4), 0U);
  EXPECT_EQ(CountOf(4, 4), 4U);
}

TEST_P(NvmeTierTest, AnErasedNamespaceStaysErased) {
  OpenEngine();
  Put(0, 8);
  ASSERT_EQ(Persist(0, 8).blocks_ready, 8U);
  ASSERT_OK(engine->EraseNamespace(space));
  Put(100, 2);
  ASSERT_EQ(Persist(100, 2).blocks_ready, 2U);
  CloseEngine();

  OpenEngine();
  EXPECT_EQ(CountOf(0, 8), 0U);
  EXPECT_EQ(CountOf(100, 2), 2U);
}

TEST_P(NvmeTierTest, PersistTakesNoMoreThanItsShare) {
  options.nvme.protected_percent = 5;
  OpenEngine();
  Put(0, 64);

  const Completion refused = Persist(0, 64);
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.blocks_ready, 0U);
  EXPECT_EQ(refused.next_missing, MissReason::kOverQuota);
  EXPECT_EQ(refused.status.message(),
            "a Persist of 64 blocks would keep 4.00 MiB more, but nvme.protected_percent lets "
            "persisted blocks take 2.73 MiB, and they take 0 B; Unpersist or Erase blocks, persist "
            "fewer, or raise nvme.protected_percent or nvme.capacity_bytes");
  EXPECT_EQ(engine->Stats().nvme_store.bytes_persisted, 0U);
  EXPECT_OK(Persist(0, 8).status);
}

// 5 blocks of a tenant that may have 4 there.
TEST_P(NvmeTierTest, PersistTakesNoMoreThanItsTenantsQuota) {
  options.nvme.admits_on_second_touch = true;  // Nothing is written unless it is persisted.
  OpenEngine();
  auto small = engine->AddNamespace(
      testing::NamespaceOf("small"),
      {.block_bytes = kBlockBytes, .tenant = 7, .nvme_quota_bytes = 4 * kBlockBytes});
  ASSERT_OK(small);
  space = *small;
  Put(0, 5);

  const Completion refused = Persist(0, 5);
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.blocks_ready, 0U);
  EXPECT_EQ(refused.next_missing, MissReason::kOverQuota);
  EXPECT_EQ(refused.status.message(),
            "a Persist of 5 blocks would write 320 KiB more of tenant 7, but "
            "NamespaceOptions::nvme_quota_bytes lets its blocks take 256 KiB of the NVMe tier, and "
            "they take 0 B; Erase blocks of the tenant, persist fewer, or raise nvme_quota_bytes");
  EXPECT_EQ(engine->Stats().nvme_store.bytes_persisted, 0U);
  EXPECT_EQ(Persist(0, 4).blocks_ready, 4U);
  EXPECT_OK(Persist(0, 4).status);  // What is there takes nothing more.
  EXPECT_EQ(Persist(4, 1).status.code(), StatusCode::kResourceExhausted);
}

// The tenant's quota has room for 4 of them at a time: the others come when those were written, and
// copied.
TEST_P(NvmeTierTest, ATenantAtItsQuotaWaitsForItsOwnBlocks) {
  constexpr std::size_t kCount = 48;
  OpenEngine();
  auto small = engine->AddNamespace(
      testing::NamespaceOf("small"),
      {.block_bytes = kBlockBytes, .tenant = 7, .host_quota_bytes = 4 * kBlockBytes});
  ASSERT_OK(small);
  space = *small;
  const std::vector<BlockKey> keys = KeysOf(0, kCount);
  std::vector<std::vector<std::byte>> blocks;
  std::vector<const std::byte*> sources;
  std::vector<std::vector<std::byte>> read(kCount, std::vector<std::byte>(kBlockBytes));
  std::vector<std::byte*> targets;
  for (std::size_t i = 0; i < kCount; ++i) {
    blocks.push_back(testing::BytesOf(i, kBlockBytes));
    sources.push_back(blocks.back().data());
    targets.push_back(read[i].data());
  }

  const Completion put =
      Await(engine->Put({.in = space, .keys = keys, .sources = sources}, *queue));
  EXPECT_OK(put.status);
  EXPECT_EQ(put.blocks_stored, kCount);
  // Some had to leave before they were written down; one by one all are.
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_TRUE(PutOne(i));
    EXPECT_EQ(Persist(i, 1).blocks_ready, 1U);
  }
  const Completion got =
      Await(engine->Get({.in = space, .keys = keys, .targets = targets}, *queue));
  EXPECT_OK(got.status);
  EXPECT_EQ(got.blocks_ready, kCount);
  EXPECT_TRUE(read == blocks);
}

// Of a path that is longer than what host memory holds it used to bring up all, and to leave its
// end there.
TEST_P(NvmeTierTest, APrefetchBringsUpWhatFitsAndCountsWhatIsThere) {
  constexpr std::size_t kCount = 200;  // There is room for 128.
  OpenEngine();
  Put(0, kCount);
  ASSERT_TRUE(Comes([&] { return engine->Stats().nvme.blocks_resident == kCount; }, 30));
  const std::vector<BlockKey> keys = KeysOf(0, kCount);

  Completion done = Await(engine->Prefetch({.in = space, .keys = keys}, *queue));
  EXPECT_OK(done.status);
  EXPECT_EQ(done.blocks_ready, 128U);
  EXPECT_EQ(done.next_missing, MissReason::kDropped);
  EXPECT_EQ(engine->Match(space, keys).host_blocks, 128U);
}

// They would be dropped by each put, or waited for in vain by each persist.
TEST_P(NvmeTierTest, BlocksThatAreTooLargeAreRefused) {
  OpenEngine();
  const auto too_large =
      engine->AddNamespace(testing::NamespaceOf("huge"), {.block_bytes = 16 << 20});
  EXPECT_STATUS(too_large, StatusCode::kInvalidArgument);
  EXPECT_EQ(too_large.status().message(),
            "block_bytes is 16.0 MiB and the host tier, which every block passes through, has 8.00 "
            "MiB; raise host.bytes, or store smaller blocks");

  const auto large = engine->AddNamespace(testing::NamespaceOf("large"), {.block_bytes = 2 << 20});
  ASSERT_OK(large);
  const std::vector<std::byte> bytes(2 << 20, std::byte{1});
  const BlockKey key = KeyOf(1);
  const std::array<const std::byte*, 1> sources{bytes.data()};
  const KeysRequest named{.in = *large, .keys = std::span(&key, 1)};
  EXPECT_EQ(Await(engine->Put({.in = *large, .keys = named.keys, .sources = sources}, *queue))
                .blocks_ready,
            1U);
  const Completion kept = Await(engine->Persist(named, *queue));
  EXPECT_STATUS(kept.status, StatusCode::kResourceExhausted);
  EXPECT_EQ(kept.next_missing, MissReason::kNotAdmitted);
}

TEST_P(NvmeTierTest, UnpersistedBlocksMayLeave) {
  OpenEngine();
  Put(0, 8);
  ASSERT_EQ(Persist(0, 8).blocks_ready, 8U);
  EXPECT_GT(engine->Stats().nvme_store.bytes_persisted, 0U);
  const std::vector<BlockKey> keys = KeysOf(0, 8);
  EXPECT_OK(Await(engine->Unpersist({.in = space, .keys = keys}, *queue)).status);

  EXPECT_EQ(engine->Stats().nvme_store.bytes_persisted, 0U);
}

TEST_P(NvmeTierTest, PersistWithoutABlockSaysWhichIsMissing) {
  OpenEngine();
  Put(0, 3);
  const Completion done = Persist(0, 5);
  EXPECT_OK(done.status);
  EXPECT_EQ(done.blocks_ready, 3U);
  EXPECT_EQ(done.next_missing, MissReason::kNeverStored);
}

// A block that nobody asks for twice is not worth a write.
TEST_P(NvmeTierTest, TheFirstTouchWritesNothingWhereTheSecondHasTo) {
  options.nvme.admits_on_second_touch = true;
  OpenEngine();
  Put(0, 20);
  EXPECT_EQ(CountOf(0, 5), 5U);
  EXPECT_EQ(Persist(10, 5).blocks_ready, 5U);
  EXPECT_TRUE(Comes([this] { return engine->Stats().offload_host_to_nvme.blocks >= 10; }, 30));
  EXPECT_EQ(engine->Stats().nvme_store.offloads_not_admitted, 20U);
  CloseEngine();

  OpenEngine();
  EXPECT_EQ(CountOf(0, 20), 10U);
  EXPECT_EQ(CountOf(0, 5) + CountOf(10, 5), 10U);
}

// It has left host memory without a trace on the drive, and is put again.
TEST_P(NvmeTierTest, ABlockThatIsPutAgainIsWritten) {
  options.nvme.admits_on_second_touch = true;
  OpenEngine();
  Put(0, 4);
  FloodHost(1'000);
  ASSERT_EQ(CountOf(0, 4), 0U);
  Put(0, 4);
  EXPECT_TRUE(Comes([this] { return engine->Stats().offload_host_to_nvme.blocks >= 4; }, 30));
  CloseEngine();

  OpenEngine();
  EXPECT_EQ(CountOf(0, 4), 4U);
}

TEST_P(NvmeTierTest, ASecondEngineIsRefused) {
  OpenEngine();
  const auto second = Engine::Open(options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

// Where the tier is not required the engine serves without it, and takes it when it can.
TEST_P(NvmeTierTest, ATierThatIsNotRequiredComesLater) {
  OpenEngine();
  EngineOptions second_options = options;
  second_options.nvme.is_required = false;
  second_options.nvme.probe_ms = 100;
  auto second = Engine::Open(second_options);
  ASSERT_OK(second);
  EXPECT_FALSE((*second)->Stats().nvme_store.is_on);

  CloseEngine();
  const Instant give_up_at = Clock::now() + std::chrono::seconds(30);
  auto second_queue = (*second)->CreateCompletionQueue(1);
  ASSERT_OK(second_queue);
  while (!(*second)->Stats().nvme_store.is_on && Clock::now() < give_up_at) {
    EXPECT_EQ((*second_queue)->Wait(Clock::now() + std::chrono::milliseconds(10)).code(),
              StatusCode::kDeadlineExceeded);
  }
  EXPECT_TRUE((*second)->Stats().nvme_store.is_on);
}

// Its bytes are wrong: a miss, never a hit with other bytes.
TEST_P(NvmeTierTest, DamagedBytesAreAMiss) {
  OpenEngine();
  Put(0, 8);
  ASSERT_EQ(Persist(0, 8).blocks_ready, 8U);
  CloseEngine();
  {
    const int file = ::open(DataFile().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    const std::vector<std::byte> garbage(63 << 20, std::byte{0x5a});
    // Every payload; the headers of the segments too, which are not read again.
    EXPECT_GT(::pwrite(file, garbage.data(), 50 << 20, 1 << 20), 0);
    ::close(file);
  }
  OpenEngine();
  EXPECT_EQ(CountOf(0, 8), 0U);
  EXPECT_GE(engine->Stats().failed_checks, 8U);
}

// Its row in the segment that it has left was found again after it was erased.
TEST_P(NvmeTierTest, WhatMovedOutOfQuarantineAndWasErasedStaysErased) {
  OpenEngine();
  Put(0, 8);
  ASSERT_EQ(Persist(0, 1).blocks_ready, 1U);
  ASSERT_TRUE(Comes([this] { return engine->Stats().nvme.blocks_resident == 8; }, 30));
  CloseEngine();
  ASSERT_NO_FATAL_FAILURE(Damage({1, 2, 3}));
  OpenEngine();
  EXPECT_EQ(CountOf(1, 3), 0U);
  ASSERT_EQ(engine->Stats().nvme_store.segments_quarantined, 1U);
  ASSERT_TRUE(Comes([this] { return engine->Stats().nvme_store.blocks_moved == 1; }, 30));
  FloodHost(1'000);
  EXPECT_TRUE(Get(0));

  EXPECT_OK(Erase(KeysOf(0, 1)));
  CloseEngine();
  OpenEngine();
  EXPECT_EQ(CountOf(0, 1), 0U);
}

INSTANTIATE_TEST_SUITE_P(Rings,
                         NvmeTierTest,
                         ::testing::Values(NvmeIo::kAuto, NvmeIo::kThreads),
                         [](const auto& io) {
                           return io.param == NvmeIo::kAuto ? "Auto" : "Threads";
                         });

TEST(EngineWithoutNvmeTest, HasNothingToPersistTo) {
  EngineOptions options;
  options.host.bytes = 8 << 20;
  options.host.is_populated = false;
  options.block_bytes = kBlockBytes;
  auto engine = Engine::Open(options);
  ASSERT_OK(engine);
  auto queue = (*engine)->CreateCompletionQueue(1);
  ASSERT_OK(queue);
  const BlockKey key = KeyOf(1);
  const auto refused = (*engine)->Persist({.in = {}, .keys = std::span(&key, 1)}, **queue);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvferry
