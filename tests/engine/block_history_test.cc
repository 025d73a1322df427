// What is remembered of departed blocks, its bound, and where the policy's numbers go.
#include "engine/block_history.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

using testing::KeyOf;

EntryIndex Entry(std::uint32_t number) {
  return EntryIndex{number};
}

MissReason ReasonFor(std::uint64_t seed) {
  return seed % 2 == 0 ? MissReason::kEvicted : MissReason::kErased;
}

// A key of the history's first bucket, whatever its size.
BlockKey KeyOfFirstBucket(std::uint64_t seed) {
  BlockKey key = KeyOf(seed);
  std::memset(key.bytes.data() + 8, 0, 4);
  return key;
}

TEST(BlockHistoryTest, RemembersReasonAndNumberUntilTheBlockIsTaken) {
  BlockHistory history(100);
  EXPECT_EQ(history.ReasonOf(KeyOf(1)), MissReason::kNeverStored);
  EXPECT_EQ(history.Take(KeyOf(1)), kNoEntry);

  const BlockHistory::Added first = history.Add(KeyOf(1), MissReason::kEvicted, Entry(41));
  const BlockHistory::Added second = history.Add(KeyOf(2), MissReason::kErased, kNoEntry);
  EXPECT_EQ(first.forgotten, kNoEntry);
  EXPECT_EQ(second.forgotten, kNoEntry);
  EXPECT_NE(first.place, second.place);
  EXPECT_EQ(history.blocks(), 2U);
  EXPECT_EQ(history.ReasonOf(KeyOf(1)), MissReason::kEvicted);
  EXPECT_EQ(history.ReasonOf(KeyOf(2)), MissReason::kErased);

  EXPECT_EQ(history.Take(KeyOf(1)), Entry(41));
  EXPECT_EQ(history.Take(KeyOf(2)), kNoEntry);
  EXPECT_EQ(history.ReasonOf(KeyOf(1)), MissReason::kNeverStored);
  EXPECT_EQ(history.blocks(), 0U);
}

TEST(BlockHistoryTest, KeepsEveryReasonAndTheLargestNumber) {
  BlockHistory history(1'000);
  for (std::uint32_t reason = 1; reason < kMissReasonCount; ++reason) {
    history.Add(KeyOf(reason), static_cast<MissReason>(reason),
                Entry(BlockHistory::kEntriesMax - reason));
  }
  for (std::uint32_t reason = 1; reason < kMissReasonCount; ++reason) {
    EXPECT_EQ(history.ReasonOf(KeyOf(reason)), static_cast<MissReason>(reason));
    EXPECT_EQ(history.Take(KeyOf(reason)), Entry(BlockHistory::kEntriesMax - reason));
  }
}

// A number that is neither remembered nor given back is lost to the policy for ever.
TEST(BlockHistoryTest, GivesBackTheNumberThatAnotherReplaces) {
  BlockHistory history(100);
  history.Add(KeyOf(1), MissReason::kEvicted, Entry(5));
  EXPECT_EQ(history.Add(KeyOf(1), MissReason::kDropped, Entry(6)).forgotten, Entry(5));
  EXPECT_EQ(history.Add(KeyOf(1), MissReason::kErased, Entry(6)).forgotten, kNoEntry);
  EXPECT_EQ(history.ReasonOf(KeyOf(1)), MissReason::kErased);
  EXPECT_EQ(history.Add(KeyOf(1), MissReason::kErased, kNoEntry).forgotten, Entry(6));
  EXPECT_EQ(history.blocks(), 1U);
  EXPECT_EQ(history.Take(KeyOf(1)), kNoEntry);
}

TEST(BlockHistoryTest, KeepsTheReasonOfANumberThatIsDropped) {
  BlockHistory history(100);
  history.DropEntry(history.Add(KeyOf(1), MissReason::kEvicted, Entry(5)).place);

  EXPECT_EQ(history.ReasonOf(KeyOf(1)), MissReason::kEvicted);
  EXPECT_EQ(history.blocks(), 1U);
  EXPECT_EQ(history.Take(KeyOf(1)), kNoEntry);
}

TEST(BlockHistoryTest, ForgetsTheOldestOfAFullBucket) {
  BlockHistory history(12'000);
  constexpr std::uint32_t kSlots = BlockHistory::kBucketSlots;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const BlockHistory::Added added =
        history.Add(KeyOfFirstBucket(i), MissReason::kEvicted, Entry(i));
    EXPECT_EQ(added.forgotten, kNoEntry);
  }
  for (std::uint32_t i = kSlots; i < 5 * kSlots; ++i) {
    const BlockHistory::Added added =
        history.Add(KeyOfFirstBucket(i), MissReason::kEvicted, Entry(i));
    EXPECT_EQ(added.forgotten, Entry(i - kSlots));
    EXPECT_EQ(history.ReasonOf(KeyOfFirstBucket(i - kSlots)), MissReason::kNeverStored);
    EXPECT_EQ(history.ReasonOf(KeyOfFirstBucket(i - kSlots + 1)), MissReason::kEvicted);
  }
  EXPECT_EQ(history.blocks(), kSlots);
}

// Each number is with a remembered block, or was given back, and never both.
TEST(BlockHistoryTest, StaysInItsBoundAndLosesNoNumber) {
  constexpr std::uint32_t kBlocksMax = 1'200;
  BlockHistory history(kBlocksMax);
  std::map<std::uint32_t, std::uint64_t> remembered;  // The number's key.
  std::uint32_t next = 0;
  Random random(8);
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t seed = random.Below(4'000);
    if (random.Chance(0.2)) {
      const EntryIndex taken = history.Take(KeyOf(seed));
      if (taken != kNoEntry) {
        ASSERT_EQ(remembered.at(static_cast<std::uint32_t>(taken)), seed);
        remembered.erase(static_cast<std::uint32_t>(taken));
      }
      continue;
    }
    const EntryIndex back = history.Add(KeyOf(seed), MissReason::kEvicted, Entry(next)).forgotten;
    remembered[next++] = seed;
    if (back != kNoEntry) {
      ASSERT_EQ(remembered.erase(static_cast<std::uint32_t>(back)), 1U);
    }
    ASSERT_LE(history.blocks(), kBlocksMax);
    ASSERT_EQ(history.blocks(), remembered.size());
  }
  EXPECT_GT(history.blocks(), kBlocksMax * 9 / 10);
  for (const auto& [number, seed] : remembered) {
    ASSERT_EQ(history.Take(KeyOf(seed)), Entry(number));
  }
  EXPECT_EQ(history.blocks(), 0U);
}

TEST(BlockHistoryTest, TakesAtMostSixteenBytesABlock) {
  for (const std::uint32_t blocks_max : {12U, 65'536U, 1'000'000U}) {
    EXPECT_LE(BlockHistory(blocks_max).memory_bytes(), std::size_t{blocks_max} * 16);
  }
  EXPECT_EQ(BlockHistory(0).memory_bytes(),
            BlockHistory(BlockHistory::kBucketSlots).memory_bytes());
}

TEST(BlockHistoryTest, AnswersCallersWhileTheMoverChangesIt) {
  BlockHistory history(240);
  std::atomic<bool> is_done = false;
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<std::uint64_t> asked = 0;
  const auto ask = [&] {
    while (!is_done.load()) {
      for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const MissReason reason = history.ReasonOf(KeyOf(seed));
        const bool is_possible = reason == MissReason::kNeverStored || reason == ReasonFor(seed);
        wrong += is_possible ? 0 : 1;
      }
      ++asked;
    }
  };
  std::vector<std::thread> callers(2);
  for (std::thread& caller : callers) {
    caller = std::thread(ask);
  }
  Random random(4);
  for (int step = 0; step < 5'000 || asked.load() < 1'000; ++step) {
    const std::uint64_t seed = random.Below(50);
    if (random.Chance(0.5)) {
      history.Add(KeyOf(seed), ReasonFor(seed), Entry(static_cast<std::uint32_t>(step) & 0xffff));
    } else {
      history.Take(KeyOf(seed));
    }
  }
  is_done = true;
  for (std::thread& caller : callers) {
    caller.join();
  }

  EXPECT_EQ(wrong.load(), 0U);
}

TEST(BlockHistoryDeathTest, StopsAtWhatItCannotKeep) {
  BlockHistory history(12);
  EXPECT_DEATH(history.Add(KeyOf(1), MissReason::kNone, kNoEntry), "kNone");
  EXPECT_DEATH(history.Add(KeyOf(1), MissReason::kEvicted, Entry(BlockHistory::kEntriesMax)),
               "kEntryMask");
}

}  // namespace
}  // namespace kvferry::engine
