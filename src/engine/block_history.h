// BlockHistory: a bounded memory of blocks that are gone: why, and by which number the policy knows
// them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kvferry/requests.h"
#include "kvferry/types.h"

#include "base/huge_array.h"
#include "base/sequence_lock.h"

namespace kvferry::engine {

// A departed block takes 10.7 bytes here: the key's fingerprint in 48 bits beside the bucket that
// it chooses, a reason and an entry number. Where a bucket is full its oldest one is forgotten, or
// one near the oldest where some were taken in between.
// Another key of the same fingerprint is taken for the block (odds of about 1 in 10^13 a look-up):
// what follows is a wrong reason in a statistic, or a wrong guess of the policy, never wrong bytes.
//
// ReasonOf(), blocks() and memory_bytes() are thread-safe and take no lock; the rest is for the
// mover thread.
class BlockHistory {
 public:
  // Numbers of the policy must lie below 2^28 - 1.
  static constexpr std::uint32_t kEntriesMax = (std::uint32_t{1} << 28) - 1;

  // Of one cache line: a look-up reads no more.
  static constexpr std::uint32_t kBucketSlots = 6;

  // Rounded down to whole buckets, but at least one.
  explicit BlockHistory(std::uint32_t blocks_max);

  struct Added {
    EntryIndex forgotten = kNoEntry;  // The policy's number of the block that was forgotten for it.
    std::uint32_t place = 0;          // Names its slot until it is taken or forgotten.
  };
  // Remembers the block, or changes what is remembered of it.
  Added Add(const BlockKey& key, MissReason reason, EntryIndex entry);
  // Begins to bring the key's bucket into the cache.
  void Prefetch(const BlockKey& key) const noexcept;
  // kNeverStored for what it does not know.
  MissReason ReasonOf(const BlockKey& key) const;
  // Forgets the block, which is coming back; returns the policy's number, kNoEntry if none.
  EntryIndex Take(const BlockKey& key);
  // The policy has forgotten the number; the reason stays.
  void DropEntry(std::uint32_t place);

  std::uint32_t blocks() const noexcept { return blocks_.load(std::memory_order_relaxed); }
  std::size_t memory_bytes() const noexcept;

 private:
  // What readers see is stored with memory_order_release, as the sequence lock asks.
  struct alignas(64) Bucket {
    std::array<std::atomic<std::uint32_t>, kBucketSlots> low{};
    // Reason in 4 bits, entry in 28.
    std::array<std::atomic<std::uint32_t>, kBucketSlots> values{};
    std::array<std::atomic<std::uint16_t>, kBucketSlots> high{};
    std::uint16_t hand = 0;  // The slot to give up next.
    // 0: the slot is free.
    std::uint32_t value(std::uint32_t slot) const noexcept {
      return values[slot].load(std::memory_order_acquire);
    }
  };
  static_assert(sizeof(Bucket) == 64);

  std::uint32_t BucketOf(const BlockKey& key) const noexcept;
  // The slot of the key's bucket; kBucketSlots: it is not there.
  std::uint32_t SlotOf(const BlockKey& key, const Bucket& bucket) const noexcept;
  static EntryIndex EntryOf(std::uint32_t value) noexcept;

  SequenceLock lock_;
  HugeArray<Bucket> buckets_;
  std::atomic<std::uint32_t> blocks_ = 0;
};

}  // namespace kvferry::engine
