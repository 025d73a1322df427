// BlockIndex: from a block's key to its record; found by any thread, changed by the mover.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kvferry/types.h"

#include "base/huge_array.h"
#include "base/sequence_lock.h"
#include "engine/block_record.h"

namespace kvferry::engine {

// The first eight bytes of a key, which is a cryptographic hash: spreads by itself.
std::uint64_t HashOf(const BlockKey& key) noexcept;

// A block's state as seen from outside the mover thread.
struct BlockView {
  std::uint16_t namespace_index = 0;
  std::uint8_t namespace_epoch = 0;
  bool is_found = false;
  bool is_in_host = false;
  bool is_in_nvme = false;
};

// Records and the hash table over them. All memory is taken at creation: 72 bytes a record and 7.3
// for its place in the table, which is made of cache lines of eleven places each, in shards that
// readers of one do not see changed together. A line that is full sends its keys to the next ones
// and counts them, and has them back when it has a place again: so a look-up reads as few lines
// after years as in a fresh table, whether the key is there or not. Past kLinesPassedMax full lines
// a key is refused, which only keys that are no digests can bring about.
//
// Look() is thread-safe and takes no lock; everything else is for the mover thread, which reads
// plainly what only it writes.
class BlockIndex {
 public:
  explicit BlockIndex(std::uint32_t records_max);

  std::uint32_t records_max() const noexcept { return records_max_; }
  std::uint32_t records_used() const noexcept { return records_used_; }
  std::size_t memory_bytes() const noexcept;

  // Of the mover thread ------------------------------------------------------------------------
  RecordIndex Find(const BlockKey& key) const noexcept;
  // Begins to bring the key's place into the cache; for runs of look-ups.
  void Prefetch(const BlockKey& key) const noexcept;
  // The same for the line after the key's own, if keys of that one lie there; reads the key's own.
  void PrefetchOverflow(const BlockKey& key) const noexcept;
  // How many lines tell that the key is not there, if it is not.
  std::uint32_t LinesToRead(const BlockKey& key) const noexcept;
  // A record that can be found by `fresh.key`, which must not be there yet; a copy of `fresh`.
  // kNoRecord if all are taken, or the lines near the key's home are full.
  RecordIndex Add(const BlockRecord& fresh);
  // The record cannot be found any more, and stays until Release.
  void Unindex(RecordIndex record);
  // The record, which must not be indexed, may be used for another block.
  void Release(RecordIndex record);

  const BlockRecord& operator[](RecordIndex record) const { return records_[NumberOf(record)]; }
  BlockUse& use(RecordIndex record) { return uses_[NumberOf(record)]; }
  const BlockUse& use(RecordIndex record) const { return uses_[NumberOf(record)]; }
  // For what Look() does not read: entry, checksum, host_slot and size_bytes. The rest is changed
  // by Update; flags too, which share their byte with the states.
  BlockRecord& PrivatePart(RecordIndex record) { return records_[NumberOf(record)]; }
  // Calls `change` with a copy of the record, of which all but the key may change, and puts it in
  // the record's place; Look() sees all of the change or nothing.
  template <class Change>
  void Update(RecordIndex record, Change&& change) {
    BlockRecord changed = records_[NumberOf(record)];
    change(changed);
    StoreAllButKey(records_[NumberOf(record)], changed);
  }
  // Calls `visit` with every record that is in use.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (std::uint32_t number = 0; number < records_max_; ++number) {
      if (is_used_[number]) {
        visit(RecordIndex{number});
      }
    }
  }
  bool is_used(RecordIndex record) const { return is_used_[NumberOf(record)]; }

  // Of any thread ------------------------------------------------------------------------------
  // Writes what is known of each key to the view of the same place; both have the same size.
  void Look(std::span<const BlockKey> keys, std::span<BlockView> views) const;

 private:
  static constexpr std::uint32_t kLinePlaces = 11;
  // Bounds a look-up, and Line::overflow: what passes a line has its home and its place this near.
  static constexpr std::uint32_t kLinesPassedMax = 256;
  static_assert(kLinesPassedMax * kLinePlaces <= 0xffff);
  static constexpr std::uint16_t kFullLine = (1U << kLinePlaces) - 1;
  // What a place says of how many lines its key has passed; this many, or more.
  static constexpr unsigned kPassedMax = 15;

  // Tags of a byte, eight a word, so that a reader loads and compares them together; the second
  // word has three, the count of overflown keys, and for six places how many lines their keys have
  // passed; `more` has that of the others, and a bit for each place that is used. Changed in a
  // shard's write.
  struct alignas(64) Line {
    std::array<std::atomic<std::uint64_t>, 2> words{};
    std::atomic<std::uint32_t> more = 0;
    std::array<std::atomic<std::uint32_t>, kLinePlaces> records{};

    std::uint32_t record(std::uint32_t place) const noexcept {
      return records[place].load(std::memory_order_acquire);
    }
    unsigned used_places() const noexcept {
      return more.load(std::memory_order_acquire) >> kUsedShift;
    }
    // Keys of this line, or passing it, that lie in later ones. A line that has any is full.
    unsigned overflow() const noexcept {
      return words[1].load(std::memory_order_acquire) >> kOverflowShift & 0xffff;
    }
    // Lines that the key of a used place has passed, at most kPassedMax.
    unsigned passed(std::uint32_t place) const noexcept;
    std::uint8_t tag(std::uint32_t place) const noexcept {
      return static_cast<std::uint8_t>(words[place / 8].load(std::memory_order_acquire) >>
                                       place % 8 * 8);
    }
    // Those of the used places that have this tag.
    unsigned PlacesOf(std::uint8_t tag) const noexcept;
    void SetOverflow(unsigned keys) noexcept { SetWord(1, kOverflowShift, 0xffff, keys); }
    // Uses a place for a record.
    void Use(std::uint32_t place, std::uint8_t tag, unsigned passed, std::uint32_t record) noexcept;
    void Free(std::uint32_t place) noexcept;

   private:
    static constexpr std::uint32_t kOverflowShift = 24;
    static constexpr std::uint32_t kPassedShift = 40;
    static constexpr std::uint32_t kPassedInWord = 6;
    static constexpr std::uint32_t kUsedShift = 20;
    void SetWord(std::size_t index,
                 std::uint32_t shift,
                 std::uint64_t mask,
                 std::uint64_t value) noexcept;
  };
  static_assert(sizeof(Line) == 64);

  struct alignas(64) Shard {
    SequenceLock lock;
  };

  // What readers see of a record is stored and loaded in words: the key's four, and the last four
  // bytes, from the namespace on.
  using KeyWord [[gnu::may_alias]] = std::uint64_t;
  using Tail [[gnu::may_alias]] = std::uint32_t;
  static constexpr std::size_t kKeyWords = sizeof(BlockKey) / sizeof(KeyWord);
  static constexpr std::size_t kTailAt = sizeof(BlockRecord) - sizeof(Tail);
  static_assert(offsetof(BlockRecord, key) == 0);
  static_assert(offsetof(BlockRecord, namespace_index) == kTailAt);

  // What a look-up has found out so far.
  struct Candidate {
    std::uint32_t record = NumberOf(kNoRecord);
    std::uint32_t sequence = 1;  // Of the shard before the line was read; odd: of none.
  };

  std::uint64_t ShardNumber(std::uint64_t hash) const noexcept { return hash & shard_mask_; }
  SequenceLock& LockOf(std::uint64_t hash) { return shards_[ShardNumber(hash)].lock; }
  const SequenceLock& LockOf(std::uint64_t hash) const { return shards_[ShardNumber(hash)].lock; }
  // The shard is chosen by the low bits, the line by the high ones and the tag by those between.
  std::size_t HomeOf(std::uint64_t hash) const noexcept {
    return ShardNumber(hash) * shard_lines_ + ((hash >> 32) * shard_lines_ >> 32);
  }
  static std::uint8_t TagOf(std::uint64_t hash) noexcept {
    return static_cast<std::uint8_t>(hash >> 8);
  }
  // The one that follows it in the shard of the hash.
  std::size_t LineAfter(std::uint64_t hash, std::size_t line_index) const noexcept {
    const std::size_t first = ShardNumber(hash) * shard_lines_;
    return line_index + 1 < first + shard_lines_ ? line_index + 1 : first;
  }
  // Lines that the key of a used place has passed.
  std::size_t PassedTo(std::size_t line_index, std::uint32_t place) const noexcept;
  // A place of the line whose key has passed at least this many; kLinePlaces if there is none.
  std::uint32_t PlaceThatPassed(std::size_t line_index, std::size_t distance) const noexcept;
  // Has keys that have passed a line with a free place back, from the nearest line that has one,
  // and so on with that line.
  void TakeBack(std::uint64_t hash, std::size_t line_index) noexcept;
  // Whether a line near the key's home has a place.
  bool HasPlaceFor(std::uint64_t hash) const noexcept;
  // Of any thread: reads what may change as Look() does.
  RecordIndex FindIn(const BlockKey& key, std::uint64_t hash) const noexcept;
  bool HasKey(std::uint32_t record, const BlockKey& key) const noexcept;
  void ReadView(std::uint32_t record, BlockView& view) const noexcept;
  // The record that the key's line names, which is on its way into the cache then.
  Candidate Prepare(const BlockKey& key) const noexcept;
  void LookAt(const BlockKey& key, const Candidate& candidate, BlockView& view) const noexcept;
  // As if nothing were known; until nobody has changed what it reads.
  void LookAgain(const BlockKey& key, BlockView& view) const noexcept;

  // kNoFree: all are in use.
  std::uint32_t TakeFree() noexcept;
  static void StoreKey(BlockRecord& record, const BlockKey& key) noexcept;
  static void StoreAllButKey(BlockRecord& record, const BlockRecord& changed) noexcept {
    record.checksum = changed.checksum;
    record.host_slot = changed.host_slot;
    record.size_bytes = changed.size_bytes;
    record.entry = changed.entry;
    Tail tail = 0;
    std::memcpy(&tail, reinterpret_cast<const std::byte*>(&changed) + kTailAt, sizeof tail);
    auto* const seen = reinterpret_cast<Tail*>(reinterpret_cast<std::byte*>(&record) + kTailAt);
    __atomic_store_n(seen, tail, __ATOMIC_RELEASE);
  }

  std::uint32_t records_max_;
  std::uint32_t records_used_ = 0;
  std::uint64_t shard_mask_ = 0;
  std::uint64_t shard_lines_ = 0;
  std::vector<Shard> shards_;
  HugeArray<Line> lines_;
  std::size_t line_count_ = 0;
  HugeArray<BlockRecord> records_;
  HugeArray<BlockUse> uses_;
  std::vector<bool> is_used_;
  // Free records are a list through their host_slot; those from never_used_ on were never in it, so
  // that nothing has to be written to make the table.
  static constexpr std::uint32_t kNoFree = 0xffffffff;
  std::uint32_t first_free_ = kNoFree;
  std::uint32_t never_used_ = 0;
};

}  // namespace kvferry::engine
