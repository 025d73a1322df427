// Lines of eleven places, searched by tag; runs of look-ups ask for memory ahead.
#include "engine/block_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace kvferry::engine {
namespace {

// Below this many records one shard does: a lock is not contended for long.
constexpr std::uint32_t kRecordsOfOneShard = 65'536;
constexpr std::uint64_t kShards = 64;
// Places for each hundred records. With all records in use, a look-up reads 1.1 lines on average
// for a key that is there and 1.6 for one that is not, however many came and went; of a million
// digests none is 30 lines from its home.
constexpr std::uint64_t kPlacesPercent = 125;
// How far ahead a run of look-ups asks for memory: lines first, then the records they name.
constexpr std::size_t kLinesAhead = 32;
constexpr std::size_t kRecordsAhead = 16;

}  // namespace

std::uint64_t HashOf(const BlockKey& key) noexcept {
  std::uint64_t hash = 0;
  std::memcpy(&hash, key.bytes.data(), sizeof hash);
  return hash;
}

// Without a branch, which would be guessed wrong every other time.
inline unsigned BlockIndex::Line::PlacesOf(std::uint8_t tag) const noexcept {
  constexpr std::uint64_t kOnes = 0x0101'0101'0101'0101;
  constexpr std::uint64_t kLows = 0x7f * kOnes;
  // Moves the highest bits of eight bytes, which stand at the places of kOnes, side by side to 56.
  constexpr std::uint64_t kGather = 0x0102'0408'1020'4080;
  unsigned same = 0;
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    const std::uint64_t differing = words[i].load(std::memory_order_acquire) ^ tag * kOnes;
    const std::uint64_t zeros = ~(((differing & kLows) + kLows) | differing | kLows);
    same |= static_cast<unsigned>((zeros >> 7) * kGather >> 56) << 8 * i;
  }
  return same & used_places();  // Of the second word's bytes the last five are no tags.
}

unsigned BlockIndex::Line::passed(std::uint32_t place) const noexcept {
  if (place < kPassedInWord) {
    return words[1].load(std::memory_order_acquire) >> (kPassedShift + 4 * place) & kPassedMax;
  }
  return more.load(std::memory_order_acquire) >> 4 * (place - kPassedInWord) & kPassedMax;
}

void BlockIndex::Line::SetWord(std::size_t index,
                               std::uint32_t shift,
                               std::uint64_t mask,
                               std::uint64_t value) noexcept {
  std::atomic<std::uint64_t>& word = words[index];
  const std::uint64_t others = word.load(std::memory_order_relaxed) & ~(mask << shift);
  word.store(others | value << shift, std::memory_order_release);
}

void BlockIndex::Line::Use(std::uint32_t place,
                           std::uint8_t tag,
                           unsigned passed,
                           std::uint32_t record) noexcept {
  SetWord(place / 8, place % 8 * 8, 0xff, tag);
  std::uint32_t rest = more.load(std::memory_order_relaxed) | 1U << (kUsedShift + place);
  if (place < kPassedInWord) {
    SetWord(1, kPassedShift + 4 * place, kPassedMax, passed);
  } else {
    const std::uint32_t shift = 4 * (place - kPassedInWord);
    rest = (rest & ~(kPassedMax << shift)) | passed << shift;
  }
  records[place].store(record, std::memory_order_release);
  more.store(rest, std::memory_order_release);
}

void BlockIndex::Line::Free(std::uint32_t place) noexcept {
  more.store(more.load(std::memory_order_relaxed) & ~(1U << (kUsedShift + place)),
             std::memory_order_release);
}

BlockIndex::BlockIndex(std::uint32_t records_max)
    : records_max_(records_max),
      records_(records_max, kZeroBytes),
      uses_(records_max, kZeroBytes),
      is_used_(records_max) {
  KVFERRY_CHECK(records_max > 0);
  const std::uint64_t shard_count = records_max < kRecordsOfOneShard ? 1 : kShards;
  shard_mask_ = shard_count - 1;
  shards_ = std::vector<Shard>(shard_count);
  const std::uint64_t places = records_max * kPlacesPercent / 100 / shard_count + kLinePlaces;
  shard_lines_ = (places + kLinePlaces - 1) / kLinePlaces;
  line_count_ = shard_lines_ * shard_count;
  lines_ = HugeArray<Line>(line_count_, kZeroBytes);
}

std::uint32_t BlockIndex::TakeFree() noexcept {
  if (first_free_ == kNoFree) {
    return never_used_ < records_max_ ? never_used_++ : kNoFree;
  }
  return std::exchange(first_free_, records_[first_free_].host_slot);
}

std::size_t BlockIndex::memory_bytes() const noexcept {
  return line_count_ * sizeof(Line) +
         std::size_t{records_max_} * (sizeof(BlockRecord) + sizeof(BlockUse)) + records_max_ / 8;
}

inline bool BlockIndex::HasKey(std::uint32_t record, const BlockKey& key) const noexcept {
  const auto* const words = reinterpret_cast<const KeyWord*>(&records_[record]);
  std::uint64_t differing = 0;
  for (std::size_t i = 0; i < kKeyWords; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.bytes.data() + i * sizeof word, sizeof word);
    differing |= word ^ __atomic_load_n(words + i, __ATOMIC_ACQUIRE);
  }
  return differing == 0;
}

void BlockIndex::StoreKey(BlockRecord& record, const BlockKey& key) noexcept {
  auto* const words = reinterpret_cast<KeyWord*>(&record);
  for (std::size_t i = 0; i < kKeyWords; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.bytes.data() + i * sizeof word, sizeof word);
    __atomic_store_n(words + i, word, __ATOMIC_RELEASE);
  }
}

inline void BlockIndex::ReadView(std::uint32_t record, BlockView& view) const noexcept {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&records_[record]);
  const Tail tail =
      __atomic_load_n(reinterpret_cast<const Tail*>(bytes + kTailAt), __ATOMIC_ACQUIRE);
  BlockRecord seen;
  std::memcpy(reinterpret_cast<std::byte*>(&seen) + kTailAt, &tail, sizeof tail);
  view.namespace_index = seen.namespace_index;
  view.namespace_epoch = seen.namespace_epoch;
  view.is_found = true;
  view.is_in_host = seen.host_state == CopyState::kResident;
  view.is_in_nvme = seen.nvme_state == CopyState::kResident;
}

RecordIndex BlockIndex::FindIn(const BlockKey& key, std::uint64_t hash) const noexcept {
  const std::uint8_t tag = TagOf(hash);
  std::size_t line_index = HomeOf(hash);
  for (std::uint64_t step = 0; step < shard_lines_; ++step) {
    const Line& line = lines_[line_index];
    for (unsigned same = line.PlacesOf(tag); same != 0; same &= same - 1) {
      const std::uint32_t record = line.record(static_cast<std::uint32_t>(std::countr_zero(same)));
      if (HasKey(record, key)) {
        return RecordIndex{record};
      }
    }
    if (line.overflow() == 0) {
      break;
    }
    line_index = LineAfter(hash, line_index);
  }
  return kNoRecord;
}

RecordIndex BlockIndex::Find(const BlockKey& key) const noexcept {
  return FindIn(key, HashOf(key));
}

void BlockIndex::Prefetch(const BlockKey& key) const noexcept {
  __builtin_prefetch(&lines_[HomeOf(HashOf(key))]);
}

void BlockIndex::PrefetchOverflow(const BlockKey& key) const noexcept {
  const std::uint64_t hash = HashOf(key);
  const std::size_t home = HomeOf(hash);
  if (lines_[home].overflow() > 0) {
    __builtin_prefetch(&lines_[LineAfter(hash, home)]);
  }
}

std::uint32_t BlockIndex::LinesToRead(const BlockKey& key) const noexcept {
  const std::uint64_t hash = HashOf(key);
  std::size_t line_index = HomeOf(hash);
  std::uint32_t lines = 1;
  for (; lines_[line_index].overflow() > 0 && lines < shard_lines_; ++lines) {
    line_index = LineAfter(hash, line_index);
  }
  return lines;
}

bool BlockIndex::HasPlaceFor(std::uint64_t hash) const noexcept {
  std::size_t line_index = HomeOf(hash);
  for (std::uint64_t step = 0; step < std::min<std::uint64_t>(kLinesPassedMax, shard_lines_);
       ++step) {
    if (lines_[line_index].used_places() != kFullLine) {
      return true;
    }
    line_index = LineAfter(hash, line_index);
  }
  return false;
}

RecordIndex BlockIndex::Add(const BlockRecord& fresh) {
  KVFERRY_DCHECK(Find(fresh.key) == kNoRecord);
  const std::uint64_t hash = HashOf(fresh.key);
  if (!HasPlaceFor(hash)) {
    return kNoRecord;
  }
  const std::uint32_t number = TakeFree();
  if (number == kNoFree) {
    return kNoRecord;
  }
  BlockRecord& added = records_[number];
  BlockRecord indexed = fresh;
  indexed.is_indexed = true;
  uses_[number] = {};
  is_used_[number] = true;
  ++records_used_;
  const SequenceWrite write(LockOf(hash));
  StoreKey(added, indexed.key);
  StoreAllButKey(added, indexed);
  std::size_t line_index = HomeOf(hash);
  unsigned passed = 0;
  for (; lines_[line_index].used_places() == kFullLine; ++passed) {
    lines_[line_index].SetOverflow(lines_[line_index].overflow() + 1);
    line_index = LineAfter(hash, line_index);
  }
  Line& line = lines_[line_index];
  const auto place = static_cast<std::uint32_t>(std::countr_one(line.used_places()));
  line.Use(place, TagOf(hash), std::min(passed, kPassedMax), number);
  return RecordIndex{number};
}

void BlockIndex::Unindex(RecordIndex record) {
  KVFERRY_CHECK(records_[NumberOf(record)].is_indexed);
  const std::uint64_t hash = HashOf(records_[NumberOf(record)].key);
  const SequenceWrite write(LockOf(hash));
  Update(record, [](BlockRecord& gone) { gone.is_indexed = false; });
  std::size_t line_index = HomeOf(hash);
  for (std::uint64_t step = 0; step < shard_lines_; ++step) {
    Line& line = lines_[line_index];
    for (unsigned same = line.PlacesOf(TagOf(hash)); same != 0; same &= same - 1) {
      const auto place = static_cast<std::uint32_t>(std::countr_zero(same));
      if (line.record(place) == NumberOf(record)) {
        line.Free(place);
        TakeBack(hash, line_index);
        return;
      }
    }
    KVFERRY_CHECK(line.overflow() > 0);
    line.SetOverflow(line.overflow() - 1);
    line_index = LineAfter(hash, line_index);
  }
  KVFERRY_CHECK(false);  // An indexed record is in its shard's lines.
}

std::size_t BlockIndex::PassedTo(std::size_t line_index, std::uint32_t place) const noexcept {
  const Line& line = lines_[line_index];
  const unsigned passed = line.passed(place);
  if (passed < kPassedMax) [[likely]] {
    return passed;
  }
  const std::size_t home = HomeOf(HashOf(records_[line.record(place)].key));
  return line_index >= home ? line_index - home : line_index + shard_lines_ - home;
}

std::uint32_t BlockIndex::PlaceThatPassed(std::size_t line_index,
                                          std::size_t distance) const noexcept {
  for (unsigned used = lines_[line_index].used_places(); used != 0; used &= used - 1) {
    const auto place = static_cast<std::uint32_t>(std::countr_zero(used));
    if (PassedTo(line_index, place) >= distance) {
      return place;
    }
  }
  return kLinePlaces;
}

// Without this, keys that once found their line full would fill the places of later lines for all
// their lives, and send those lines' keys on: after some rounds of blocks that come and go it took
// 80 lines to tell that a key is not there.
void BlockIndex::TakeBack(std::uint64_t hash, std::size_t line_index) noexcept {
  while (lines_[line_index].overflow() > 0) {
    std::size_t from = LineAfter(hash, line_index);
    std::size_t distance = 1;
    std::uint32_t place = PlaceThatPassed(from, distance);
    while (place == kLinePlaces) {
      from = LineAfter(hash, from);
      KVFERRY_CHECK(++distance < shard_lines_);  // What has passed the line lies behind it.
      place = PlaceThatPassed(from, distance);
    }
    Line& line = lines_[line_index];
    const auto free = static_cast<std::uint32_t>(std::countr_one(line.used_places()));
    const std::size_t passed = PassedTo(from, place) - distance;
    line.Use(free, lines_[from].tag(place),
             static_cast<unsigned>(std::min<std::size_t>(passed, kPassedMax)),
             lines_[from].record(place));
    lines_[from].Free(place);
    for (std::size_t at = line_index; at != from; at = LineAfter(hash, at)) {
      lines_[at].SetOverflow(lines_[at].overflow() - 1);
    }
    line_index = from;
  }
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

inline BlockIndex::Candidate BlockIndex::Prepare(const BlockKey& key) const noexcept {
  const std::uint64_t hash = HashOf(key);
  Candidate candidate;
  candidate.sequence = LockOf(hash).sequence();
  const Line& line = lines_[HomeOf(hash)];
  const unsigned same = line.PlacesOf(TagOf(hash));
  if (same != 0) {
    candidate.record = line.record(static_cast<std::uint32_t>(std::countr_zero(same)));
    __builtin_prefetch(&records_[candidate.record]);
  }
  return candidate;
}

inline void BlockIndex::LookAt(const BlockKey& key,
                               const Candidate& candidate,
                               BlockView& view) const noexcept {
  const SequenceLock& lock = LockOf(HashOf(key));
  if (candidate.record != NumberOf(kNoRecord) && HasKey(candidate.record, key)) [[likely]] {
    ReadView(candidate.record, view);
    if (lock.IsCurrent(candidate.sequence)) [[likely]] {
      return;
    }
  }
  LookAgain(key, view);
}

void BlockIndex::LookAgain(const BlockKey& key, BlockView& view) const noexcept {
  const std::uint64_t hash = HashOf(key);
  view = LockOf(hash).Read([&] {
    BlockView seen;
    if (const RecordIndex found = FindIn(key, hash); found != kNoRecord) {
      ReadView(NumberOf(found), seen);
    }
    return seen;
  });
}

void BlockIndex::Look(std::span<const BlockKey> keys, std::span<BlockView> views) const {
  KVFERRY_CHECK(keys.size() == views.size());
  std::array<Candidate, kRecordsAhead> candidates;
  for (std::size_t i = 0; i < std::min(kLinesAhead, keys.size()); ++i) {
    Prefetch(keys[i]);
  }
  for (std::size_t i = 0; i < std::min(kRecordsAhead, keys.size()); ++i) {
    candidates[i] = Prepare(keys[i]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + kLinesAhead < keys.size()) {
      Prefetch(keys[i + kLinesAhead]);
    }
    Candidate& candidate = candidates[i % kRecordsAhead];
    LookAt(keys[i], candidate, views[i]);
    if (i + kRecordsAhead < keys.size()) {
      candidate = Prepare(keys[i + kRecordsAhead]);
    }
  }
}

}  // namespace kvferry::engine
