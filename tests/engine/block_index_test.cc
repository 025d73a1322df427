// The index against a list, under keys that collide on purpose, and its readers beside the mover.
#include "engine/block_index.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

using testing::KeyOf;
using testing::KeysOf;

// A key whose first eight bytes, by which it is placed, are chosen.
BlockKey KeyWith(std::uint64_t hash, std::uint64_t rest) {
  BlockKey key = KeyOf(rest);
  std::memcpy(key.bytes.data(), &hash, sizeof hash);
  return key;
}

BlockRecord RecordOf(const BlockKey& key) {
  BlockRecord record;
  record.key = key;
  return record;
}

BlockView LookAt(const BlockIndex& index, const BlockKey& key) {
  BlockView view;
  index.Look({&key, 1}, {&view, 1});
  return view;
}

// Keys of one whole hash, of one line, of one tag, of the last line before the table wraps, and
// digests.
std::vector<BlockKey> AdversarialKeys(std::uint64_t each) {
  std::vector<BlockKey> keys;
  for (std::uint64_t i = 0; i < each; ++i) {
    keys.push_back(KeyWith(0x1234567800abcd00, i));
    keys.push_back(KeyWith(0x7000000000000000 | i << 8, i));
    keys.push_back(KeyWith(i << 40 | 0x471100, i));
    keys.push_back(KeyWith(0xffffffff00000000 | i << 6, i));
    keys.push_back(KeyOf(1'000'000 + i));
  }
  return keys;
}

// An index and what it should hold, changed together at random.
class Twin {
 public:
  Twin(std::uint32_t records_max, std::vector<BlockKey> keys, std::uint64_t seed)
      : keys_(std::move(keys)),
        index_(records_max),
        random_(seed),
        records_(keys_.size(), kNoRecord) {}

  void Step() {
    const std::size_t which = random_.Below(keys_.size());
    const RecordIndex known = records_[which];
    if (known == kNoRecord) {
      Add(which);
    } else if (random_.Chance(0.3)) {
      Change(known);
    } else {
      index_.Unindex(known);
      ASSERT_TRUE(index_.is_used(known));
      departed_.push_back(known);
      records_[which] = kNoRecord;
      --indexed_;
    }
    if (!departed_.empty() && random_.Chance(0.4)) {
      std::swap(departed_[random_.Below(departed_.size())], departed_.back());
      index_.Release(departed_.back());
      departed_.pop_back();
    }
  }

  void Check() {
    ASSERT_EQ(index_.records_used(), indexed_ + departed_.size());
    std::vector<BlockView> views(keys_.size());
    index_.Look(keys_, views);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const RecordIndex expected = records_[i];
      ASSERT_EQ(index_.Find(keys_[i]), expected);
      ASSERT_EQ(views[i].is_found, expected != kNoRecord);
      if (expected != kNoRecord) {
        const BlockRecord& record = index_[expected];
        ASSERT_EQ(record.key, keys_[i]);
        ASSERT_TRUE(record.is_indexed);
        ASSERT_EQ(views[i].namespace_index, record.namespace_index);
        ASSERT_EQ(views[i].namespace_epoch, record.namespace_epoch);
        ASSERT_EQ(views[i].is_in_host, record.host_state == CopyState::kResident);
        ASSERT_EQ(views[i].is_in_nvme, record.nvme_state == CopyState::kResident);
      }
    }
    std::size_t visited = 0;
    index_.ForEach([&](RecordIndex record) {
      ++visited;
      ASSERT_TRUE(index_.is_used(record));
    });
    ASSERT_EQ(visited, index_.records_used());
  }

 private:
  void Add(std::size_t which) {
    BlockRecord fresh = RecordOf(keys_[which]);
    fresh.size_bytes = static_cast<std::uint32_t>(random_.Below(100'000)) & kBlockSizeMask;
    fresh.namespace_index = static_cast<std::uint16_t>(random_.Below(5));
    const RecordIndex record = index_.Add(fresh);
    if (index_.records_max() == indexed_ + departed_.size()) {
      ASSERT_EQ(record, kNoRecord);
      return;
    }
    ASSERT_NE(record, kNoRecord);
    ASSERT_EQ(index_[record].size_bytes, fresh.size_bytes);
    ASSERT_EQ(index_.use(record).readers, 0U);
    ASSERT_EQ(index_.use(record).handles, 0U);
    records_[which] = record;
    ++indexed_;
  }

  void Change(RecordIndex record) {
    index_.Update(record, [&](BlockRecord& changed) {
      changed.host_state = static_cast<CopyState>(random_.Below(4));
      changed.nvme_state = static_cast<CopyState>(random_.Below(4));
      changed.namespace_epoch = static_cast<std::uint8_t>(random_.Below(256));
    });
    index_.use(record).nvme_page = 7;
  }

  std::vector<BlockKey> keys_;
  BlockIndex index_;
  Random random_;
  std::vector<RecordIndex> records_;  // By key; kNoRecord: not there.
  std::size_t indexed_ = 0;
  std::vector<RecordIndex> departed_;
};

// A lost key is a block that is never found nor freed; one too many is another block's bytes.
TEST(BlockIndexTest, AgreesWithAListWhateverCollides) {
  for (const std::uint32_t records_max : {1U, 40U, 900U, 5'000U}) {
    SCOPED_TRACE(records_max);
    Twin twin(records_max, AdversarialKeys(250), records_max);
    for (int round = 0; round < 20; ++round) {
      for (int step = 0; step < 1'000; ++step) {
        ASSERT_NO_FATAL_FAILURE(twin.Step());
      }
      ASSERT_NO_FATAL_FAILURE(twin.Check());
    }
  }
}

// Digests spread: every record can be used, also in a table of many shards.
TEST(BlockIndexTest, HasRoomForAllRecordsOfDigests) {
  for (const std::uint32_t records_max : {1U, 9U, 65'535U, 65'536U, 200'000U}) {
    BlockIndex index(records_max);
    for (std::uint32_t i = 0; i < records_max; ++i) {
      ASSERT_NE(index.Add(RecordOf(KeyOf(i))), kNoRecord) << i << " of " << records_max;
    }
    EXPECT_EQ(index.Add(RecordOf(KeyOf(records_max))), kNoRecord);
    EXPECT_EQ(index.records_used(), records_max);
    EXPECT_EQ(index[index.Find(KeyOf(0))].key, KeyOf(0));
  }
}

// Keys that found their line full must not stay away from it for ever: the table of blocks that
// come and go would get slower and slower, most of all for keys that are not there.
TEST(BlockIndexTest, ReadsAsFewLinesAfterManyLivesAsInTheFirst) {
  constexpr std::uint32_t kRecords = 70'000;
  constexpr std::uint64_t kProbes = 20'000;
  BlockIndex index(kRecords);
  const auto lines_to_read = [&] {
    std::uint64_t lines = 0;
    for (std::uint64_t i = 0; i < kProbes; ++i) {
      lines += index.LinesToRead(KeyOf(1'000'000'000 + i));
    }
    return static_cast<double>(lines) / kProbes;
  };
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    ASSERT_NE(index.Add(RecordOf(KeyOf(i))), kNoRecord);
  }
  const double at_first = lines_to_read();
  EXPECT_LT(at_first, 2);
  Random random(3);
  for (std::uint64_t i = kRecords; i < std::uint64_t{6} * kRecords; ++i) {
    const RecordIndex gone{static_cast<std::uint32_t>(random.Below(kRecords))};
    index.Unindex(gone);
    index.Release(gone);
    ASSERT_NE(index.Add(RecordOf(KeyOf(i))), kNoRecord);
  }
  EXPECT_LT(lines_to_read(), at_first * 1.1);
}

// Keys that are no digests may fill one shard, and are refused there without harm to others.
TEST(BlockIndexTest, RefusesWhatAFullShardHasNoPlaceFor) {
  BlockIndex index(65'536);
  std::vector<BlockKey> added;
  Random random(1);
  const auto next = [&] {
    return KeyWith(random.Next() & ~std::uint64_t{63}, added.size());
  };
  BlockKey key = next();
  for (; index.Add(RecordOf(key)) != kNoRecord; key = next()) {
    added.push_back(key);
    ASSERT_LT(added.size(), 2'000U);
  }

  EXPECT_GE(added.size(), 65'536U / 64);
  EXPECT_EQ(index.records_used(), added.size());
  EXPECT_FALSE(LookAt(index, key).is_found);
  const RecordIndex other = index.Add(RecordOf(KeyWith(1, 0)));
  EXPECT_NE(other, kNoRecord);
  for (const BlockKey& present : added) {
    ASSERT_NE(index.Find(present), kNoRecord);
  }

  const RecordIndex gone = index.Find(added.front());
  index.Unindex(gone);
  EXPECT_NE(index.Add(RecordOf(key)), kNoRecord);
  EXPECT_TRUE(LookAt(index, key).is_found);
  EXPECT_FALSE(LookAt(index, added.front()).is_found);
}

// A caller with a hundred thousand keys of one home must neither overflow a count nor make every
// look-up a walk through the table.
TEST(BlockIndexTest, RefusesKeysOfOneHomePastABound) {
  BlockIndex index(400'000);
  const auto key_of = [](std::uint64_t i) {
    return KeyWith(0x5555555500000000, i);
  };
  for (int round = 0; round < 2; ++round) {
    std::uint64_t added = 0;
    while (added < 100'000 && index.Add(RecordOf(key_of(added))) != kNoRecord) {
      ++added;
    }
    EXPECT_EQ(added, 256U * 11);  // Lines passed at most, and the places of a line.
    EXPECT_NE(index.Add(RecordOf(KeyWith(0xaaaaaaaa00000000, 0))), kNoRecord);

    for (std::uint64_t i = 0; i < added; ++i) {
      const RecordIndex record = index.Find(key_of(i));
      ASSERT_NE(record, kNoRecord);
      index.Unindex(record);
      index.Release(record);
    }
    const RecordIndex other = index.Find(KeyWith(0xaaaaaaaa00000000, 0));
    index.Unindex(other);
    index.Release(other);
    EXPECT_EQ(index.records_used(), 0U);
  }
}

TEST(BlockIndexTest, TakesAtMostEightyBytesARecord) {
  constexpr std::uint32_t kRecords = 1'000'000;
  EXPECT_LE(BlockIndex(kRecords).memory_bytes(), std::size_t{kRecords} * 80);
  EXPECT_GE(BlockIndex(kRecords).memory_bytes(), std::size_t{kRecords} * 72);
}

// Readers see each block whole: in one tier or the other, never in both or neither, and never with
// what belongs to another block, while it and its neighbours in the table are changed, added and
// removed.
TEST(BlockIndexTest, ServesReadersWhileTheMoverChangesIt) {
  constexpr std::size_t kStable = 64;
  BlockIndex index(300);
  std::vector<BlockKey> keys = KeysOf(0, kStable);
  for (std::size_t i = 0; i < kStable; ++i) {
    BlockRecord fresh = RecordOf(keys[i]);
    fresh.namespace_index = static_cast<std::uint16_t>(i);
    fresh.host_state = CopyState::kResident;
    ASSERT_NE(index.Add(fresh), kNoRecord);
  }
  const std::vector<BlockKey> passing = KeysOf(kStable, 200);
  keys.insert(keys.end(), passing.begin(), passing.end());

  std::atomic<bool> is_done = false;
  std::atomic<std::uint64_t> torn = 0;
  std::atomic<std::uint64_t> looks = 0;
  const auto read = [&] {
    std::vector<BlockView> views(keys.size());
    while (!is_done.load()) {
      index.Look(keys, views);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const bool is_whole =
            views[i].is_in_host != views[i].is_in_nvme && views[i].namespace_index == i;
        torn += (i < kStable || views[i].is_found) && !is_whole ? 1 : 0;
      }
      ++looks;
    }
  };
  std::vector<std::thread> readers(2);
  for (std::thread& reader : readers) {
    reader = std::thread(read);
  }

  Random random(5);
  for (int step = 0; step < 5'000 || looks.load() < 1'000; ++step) {
    const RecordIndex stable = index.Find(keys[random.Below(kStable)]);
    index.PrivatePart(stable).entry = EntryIndex{static_cast<std::uint32_t>(step)};
    index.Update(stable, [](BlockRecord& record) {
      const CopyState host = record.host_state;
      record.host_state = record.nvme_state;
      record.nvme_state = host;
      record.is_prefetched = !record.is_prefetched;
    });
    const std::size_t which = kStable + random.Below(passing.size());
    const BlockKey& key = keys[which];
    const RecordIndex found = index.Find(key);
    if (found == kNoRecord) {
      BlockRecord fresh = RecordOf(key);
      fresh.namespace_index = static_cast<std::uint16_t>(which);
      fresh.nvme_state = CopyState::kResident;
      ASSERT_NE(index.Add(fresh), kNoRecord);
    } else {
      index.Unindex(found);
      index.PrivatePart(found).size_bytes = 1;
      index.Release(found);
    }
  }
  is_done = true;
  for (std::thread& reader : readers) {
    reader.join();
  }

  EXPECT_EQ(torn.load(), 0U);
}

TEST(BlockIndexDeathTest, StopsWhereARecordIsUsedAgainstItsState) {
  BlockIndex index(4);
  const RecordIndex record = index.Add(RecordOf(KeyOf(1)));
  EXPECT_DEATH(index.Release(record), "is_indexed");
  index.Unindex(record);
  EXPECT_DEATH(index.Unindex(record), "is_indexed");
  index.use(record).handles = 1;
  EXPECT_DEATH(index.Release(record), "handles");
  index.use(record).handles = 0;
  index.Release(record);
  EXPECT_DEATH(index.Release(record), "is_used_");
}

}  // namespace
}  // namespace kvferry::engine
