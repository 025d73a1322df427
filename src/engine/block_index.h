// BlockIndex: from a block's key to its record; found by any thread, changed by the mover.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/types.h"

#include "base/huge_array.h"
#include "base/spin_lock.h"
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
// for its place in the table, which is made of cache lines of ten places each, in shards with a
// lock each. A line that is full sends its keys to the next one and counts them, so keys of one
// home cost each other time; past kLinesPassedMax full lines a key is refused, which only keys that
// are no digests can bring about.
//
// Look() is thread-safe; everything else is for the mover thread, which reads without a lock what
// only it writes.
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
  // Calls `change` with the record under its shard's lock.
  template <class Change>
  void Update(RecordIndex record, Change&& change) {
    BlockRecord& changed = records_[NumberOf(record)];
    const SpinLockHolder lock(ShardOf(HashOf(changed.key)).lock);
    change(changed);
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
  static constexpr std::uint32_t kLinePlaces = 10;
  // Bounds a look-up, and Line::overflow: what passes a line has its home and its place this near.
  static constexpr std::uint32_t kLinesPassedMax = 256;
  static_assert(kLinesPassedMax * kLinePlaces <= 0xffff);
  static constexpr std::uint16_t kFullLine = (1U << kLinePlaces) - 1;

  // Written under the shard's lock. What is atomic is also read without it, by PrefetchRecord.
  struct alignas(64) Line {
    std::array<std::atomic<std::uint16_t>, kLinePlaces> tags{};
    std::uint16_t overflow = 0;  // Keys of this line, or passing it, that lie in later ones.
    std::atomic<std::uint16_t> used{0};  // A bit a place.
    std::array<std::atomic<std::uint32_t>, kLinePlaces> records{};

    std::uint32_t record(std::uint32_t place) const noexcept {
      return records[place].load(std::memory_order_relaxed);
    }
    unsigned used_places() const noexcept { return used.load(std::memory_order_relaxed); }
    // Those of the used places that have this tag; without a branch, which would be guessed wrong
    // every other time.
    unsigned PlacesOf(std::uint16_t tag) const noexcept;
    void SetUsed(unsigned places) noexcept {
      used.store(static_cast<std::uint16_t>(places), std::memory_order_relaxed);
    }
  };
  static_assert(sizeof(Line) == 64);

  struct alignas(64) Shard {
    mutable SpinLock lock;
    std::uint32_t first_line = 0;
    std::uint32_t line_count = 0;
  };

  Shard& ShardOf(std::uint64_t hash) { return shards_[hash & shard_mask_]; }
  const Shard& ShardOf(std::uint64_t hash) const { return shards_[hash & shard_mask_]; }
  static std::uint32_t HomeOf(const Shard& shard, std::uint64_t hash) noexcept;
  static std::uint32_t LineAfter(const Shard& shard, std::uint32_t line_index) noexcept {
    return line_index + 1 < shard.first_line + shard.line_count ? line_index + 1 : shard.first_line;
  }
  // Whether a line near the key's home has a place.
  bool HasPlaceFor(const Shard& shard, std::uint64_t hash) const noexcept;
  static std::uint16_t TagOf(std::uint64_t hash) noexcept;
  RecordIndex FindIn(const Shard& shard, const BlockKey& key, std::uint64_t hash) const noexcept;
  // The same for the record that the key's place names. Takes no lock: where the place has changed
  // meanwhile, it asks for a record that nobody needs.
  void PrefetchRecord(std::uint64_t hash) const noexcept;

  std::uint32_t records_max_;
  std::uint32_t records_used_ = 0;
  std::uint64_t shard_mask_ = 0;
  std::vector<Shard> shards_;
  HugeArray<Line> lines_;
  std::size_t line_count_ = 0;
  HugeArray<BlockRecord> records_;
  HugeArray<BlockUse> uses_;
  std::vector<bool> is_used_;
  // Free records are a list through their host_slot.
  std::uint32_t first_free_ = 0;
};

}  // namespace kvferry::engine
