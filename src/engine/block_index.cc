// Lines of ten places, searched by tag; runs of look-ups ask for memory ahead.
#include "engine/block_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace kvferry::engine {
namespace {

constexpr std::uint32_t kNoFree = 0xffffffff;
// Below this many records one shard does: a lock is not contended for long.
constexpr std::uint32_t kRecordsOfOneShard = 65'536;
constexpr std::uint64_t kShards = 64;
// Places for each hundred records. With all records in use a look-up reads 1.25 lines on average,
// and of a million digests none is 100 lines from its home.
constexpr std::uint64_t kPlacesPercent = 114;
// How far ahead a run of look-ups asks for memory: lines first, then the records they name.
constexpr std::size_t kLinesAhead = 32;
constexpr std::size_t kRecordsAhead = 16;

}  // namespace

std::uint64_t HashOf(const BlockKey& key) noexcept {
  std::uint64_t hash = 0;
  std::memcpy(&hash, key.bytes.data(), sizeof hash);
  return hash;
}

// The shard is chosen by the low bits, the line by the high ones and the tag by those between.
std::uint32_t BlockIndex::HomeOf(const Shard& shard, std::uint64_t hash) noexcept {
  return shard.first_line +
         static_cast<std::uint32_t>(((hash >> 32) * std::uint64_t{shard.line_count}) >> 32);
}

std::uint16_t BlockIndex::TagOf(std::uint64_t hash) noexcept {
  return static_cast<std::uint16_t>(hash >> 8);
}

unsigned BlockIndex::Line::PlacesOf(std::uint16_t tag) const noexcept {
  const auto bit_of = [&](std::uint32_t place) {
    return (tags[place].load(std::memory_order_relaxed) == tag ? 1U : 0U) << place;
  };
  const auto bits_of = [&]<std::uint32_t... kPlaces>(
      std::integer_sequence<std::uint32_t, kPlaces...>) {
    return (bit_of(kPlaces) | ...);
  };
  return bits_of(std::make_integer_sequence<std::uint32_t, kLinePlaces>()) & used_places();
}

BlockIndex::BlockIndex(std::uint32_t records_max)
    : records_max_(records_max), records_(records_max), uses_(records_max), is_used_(records_max) {
  KVFERRY_CHECK(records_max > 0);
  const std::uint64_t shard_count = records_max < kRecordsOfOneShard ? 1 : kShards;
  shard_mask_ = shard_count - 1;
  shards_ = std::vector<Shard>(shard_count);
  const std::uint64_t places = records_max * kPlacesPercent / 100 / shard_count + kLinePlaces;
  const auto lines = static_cast<std::uint32_t>((places + kLinePlaces - 1) / kLinePlaces);
  for (std::uint32_t i = 0; i < shard_count; ++i) {
    shards_[i].first_line = i * lines;
    shards_[i].line_count = lines;
  }
  line_count_ = std::size_t{lines} * shard_count;
  lines_ = HugeArray<Line>(line_count_);
  for (std::uint32_t number = 0; number < records_max; ++number) {
    records_[number].host_slot = number + 1 < records_max ? number + 1 : kNoFree;
  }
}

std::size_t BlockIndex::memory_bytes() const noexcept {
  return line_count_ * sizeof(Line) +
         std::size_t{records_max_} * (sizeof(BlockRecord) + sizeof(BlockUse)) + records_max_ / 8;
}

RecordIndex BlockIndex::FindIn(const Shard& shard,
                               const BlockKey& key,
                               std::uint64_t hash) const noexcept {
  const std::uint16_t tag = TagOf(hash);
  std::uint32_t line_index = HomeOf(shard, hash);
  for (std::uint32_t step = 0; step < shard.line_count; ++step) {
    const Line& line = lines_[line_index];
    for (unsigned same = line.PlacesOf(tag); same != 0; same &= same - 1) {
      const std::uint32_t record = line.record(static_cast<std::uint32_t>(std::countr_zero(same)));
      if (records_[record].key == key) {
        return RecordIndex{record};
      }
    }
    if (line.overflow == 0) {
      break;
    }
    line_index = LineAfter(shard, line_index);
  }
  return kNoRecord;
}

RecordIndex BlockIndex::Find(const BlockKey& key) const noexcept {
  const std::uint64_t hash = HashOf(key);
  return FindIn(ShardOf(hash), key, hash);
}

void BlockIndex::Prefetch(const BlockKey& key) const noexcept {
  const std::uint64_t hash = HashOf(key);
  __builtin_prefetch(&lines_[HomeOf(ShardOf(hash), hash)]);
}

bool BlockIndex::HasPlaceFor(const Shard& shard, std::uint64_t hash) const noexcept {
  std::uint32_t line_index = HomeOf(shard, hash);
  for (std::uint32_t step = 0; step < std::min(kLinesPassedMax, shard.line_count); ++step) {
    if (lines_[line_index].used_places() != kFullLine) {
      return true;
    }
    line_index = LineAfter(shard, line_index);
  }
  return false;
}

RecordIndex BlockIndex::Add(const BlockRecord& fresh) {
  KVFERRY_DCHECK(Find(fresh.key) == kNoRecord);
  const std::uint64_t hash = HashOf(fresh.key);
  Shard& shard = ShardOf(hash);
  if (first_free_ == kNoFree || !HasPlaceFor(shard, hash)) {
    return kNoRecord;
  }
  const RecordIndex record{first_free_};
  const SpinLockHolder lock(shard.lock);
  BlockRecord& added = records_[NumberOf(record)];
  first_free_ = added.host_slot;
  added = fresh;
  added.is_indexed = true;
  uses_[NumberOf(record)] = {};
  is_used_[NumberOf(record)] = true;
  ++records_used_;
  std::uint32_t line_index = HomeOf(shard, hash);
  while (lines_[line_index].used_places() == kFullLine) {
    ++lines_[line_index].overflow;
    line_index = LineAfter(shard, line_index);
  }
  Line& line = lines_[line_index];
  const unsigned used = line.used_places();
  const auto place = static_cast<std::uint32_t>(std::countr_one(used));
  line.tags[place].store(TagOf(hash), std::memory_order_relaxed);
  line.records[place].store(NumberOf(record), std::memory_order_relaxed);
  line.SetUsed(used | 1U << place);
  return record;
}

void BlockIndex::Unindex(RecordIndex record) {
  BlockRecord& gone = records_[NumberOf(record)];
  KVFERRY_CHECK(gone.is_indexed);
  const std::uint64_t hash = HashOf(gone.key);
  Shard& shard = ShardOf(hash);
  const SpinLockHolder lock(shard.lock);
  gone.is_indexed = false;
  std::uint32_t line_index = HomeOf(shard, hash);
  for (std::uint32_t step = 0; step < shard.line_count; ++step) {
    Line& line = lines_[line_index];
    for (unsigned same = line.PlacesOf(TagOf(hash)); same != 0; same &= same - 1) {
      const auto place = static_cast<std::uint32_t>(std::countr_zero(same));
      if (line.record(place) == NumberOf(record)) {
        line.SetUsed(line.used_places() & ~(1U << place));
        return;
      }
    }
    KVFERRY_CHECK(line.overflow > 0);
    --line.overflow;
    line_index = LineAfter(shard, line_index);
  }
  KVFERRY_CHECK(false);  // An indexed record is in its shard's lines.
}

void BlockIndex::Release(RecordIndex record) {
  BlockRecord& gone = records_[NumberOf(record)];
  KVFERRY_CHECK(is_used_[NumberOf(record)] && !gone.is_indexed);
  KVFERRY_CHECK(uses_[NumberOf(record)].readers == 0 && uses_[NumberOf(record)].handles == 0);
  is_used_[NumberOf(record)] = false;
  --records_used_;
  gone.host_slot = first_free_;
  first_free_ = NumberOf(record);
}

void BlockIndex::PrefetchRecord(std::uint64_t hash) const noexcept {
  const Line& line = lines_[HomeOf(ShardOf(hash), hash)];
  const unsigned same = line.PlacesOf(TagOf(hash));
  if (same != 0) {
    const auto place = static_cast<std::uint32_t>(std::countr_zero(same));
    __builtin_prefetch(&records_[line.record(place)]);
  }
}

void BlockIndex::Look(std::span<const BlockKey> keys, std::span<BlockView> views) const {
  KVFERRY_CHECK(keys.size() == views.size());
  for (std::size_t i = 0; i < std::min(kLinesAhead, keys.size()); ++i) {
    Prefetch(keys[i]);
  }
  for (std::size_t i = 0; i < std::min(kRecordsAhead, keys.size()); ++i) {
    PrefetchRecord(HashOf(keys[i]));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + kLinesAhead < keys.size()) {
      Prefetch(keys[i + kLinesAhead]);
    }
    if (i + kRecordsAhead < keys.size()) {
      PrefetchRecord(HashOf(keys[i + kRecordsAhead]));
    }
    const std::uint64_t hash = HashOf(keys[i]);
    const Shard& shard = ShardOf(hash);
    const SpinLockHolder lock(shard.lock);
    const RecordIndex found = FindIn(shard, keys[i], hash);
    if (found == kNoRecord) {
      views[i] = {};
      continue;
    }
    const BlockRecord& record = records_[NumberOf(found)];
    views[i] = {.namespace_index = record.namespace_index,
                .namespace_epoch = record.namespace_epoch,
                .is_found = true,
                .is_in_host = record.host_state == CopyState::kResident,
                .is_in_nvme = record.nvme_state == CopyState::kResident};
  }
}

}  // namespace kvferry::engine
