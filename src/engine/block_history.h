// BlockHistory: a bounded memory of blocks that are gone: why, and by which number the policy knows
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "kvferry/requests.h"
#include "kvferry/types.h"

#include "base/mutex.h"

namespace kvferry::engine {

// A departed block takes 10.7 bytes here: the key's fingerprint in 48 bits beside the bucket that
// it chooses, a reason and an entry number. Where a bucket is full its oldest one is forgotten, or
// one near the oldest where some were taken in between.
// Another key of the same fingerprint is taken for the block (odds of about 1 in 10^13 a look-up):
// what follows is a wrong reason in a statistic, or a wrong guess of the policy, never wrong bytes.
//
// Thread-safe: callers ask for reasons while the mover thread changes it.
class BlockHistory {
 public:
  // Numbers of the policy must lie below 2^28 - 1.
  static constexpr std::uint32_t kEntriesMax = (std::uint32_t{1} << 28) - 1;

  // Rounded down to a multiple of 12, but at least 12.
  explicit BlockHistory(std::uint32_t blocks_max);

  // Remembers the block, or changes what is remembered of it. Returns the policy's number of the
  // block that was forgotten for it, kNoEntry if it had none.
  EntryIndex Add(const BlockKey& key, MissReason reason, EntryIndex entry);
  // Begins to bring the key's bucket into the cache. Takes no lock.
  void Prefetch(const BlockKey& key) const noexcept;
  // kNeverStored for what it does not know.
  MissReason ReasonOf(const BlockKey& key) const;
  // Forgets the block, which is coming back; returns the policy's number, kNoEntry if none.
  EntryIndex Take(const BlockKey& key);
  // The policy has forgotten the number; the reason stays. `place` is what PlaceOf gave.
  void DropEntry(std::uint32_t place);
  // Names the slot of a block that is remembered, until it is taken or forgotten.
  std::optional<std::uint32_t> PlaceOf(const BlockKey& key) const;

  std::uint32_t blocks() const;
  std::size_t memory_bytes() const noexcept;

 private:
  static constexpr std::uint32_t kBucketSlots = 12;

  struct alignas(64) Bucket {
    std::array<std::uint32_t, kBucketSlots> low{};
    std::array<std::uint32_t, kBucketSlots> values{};  // Reason in 4 bits, entry in 28; 0: free.
    std::array<std::uint16_t, kBucketSlots> high{};
    std::uint16_t hand = 0;  // The slot to give up next.
  };
  static_assert(sizeof(Bucket) == 128);

  struct Place {
    Bucket* bucket;
    std::uint32_t slot;  // kBucketSlots: not there.
  };
  Place Locate(const BlockKey& key) const KVFERRY_REQUIRES(mutex_);
  static EntryIndex EntryOf(std::uint32_t value) noexcept;

  mutable Mutex mutex_;
  std::uint32_t bucket_count_;
  const std::unique_ptr<Bucket[]> buckets_;  // What is in them is guarded by mutex_.
  std::uint32_t blocks_ KVFERRY_GUARDED_BY(mutex_) = 0;
};

}  // namespace kvferry::engine
