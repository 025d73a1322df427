// Buckets of fingerprints; a full one forgets its oldest.
#include "engine/block_history.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace kvferry::engine {
namespace {

constexpr std::uint32_t kEntryMask = BlockHistory::kEntriesMax;  // All bits set: no number.
constexpr unsigned kReasonShift = 28;
static_assert(kMissReasonCount <= 16, "a reason has four bits");

std::uint32_t Pack(MissReason reason, EntryIndex entry) {
  KVFERRY_CHECK(reason != MissReason::kNone);
  const std::uint32_t number = entry == kNoEntry ? kEntryMask : static_cast<std::uint32_t>(entry);
  KVFERRY_CHECK(entry == kNoEntry || number < kEntryMask);
  return static_cast<std::uint32_t>(reason) << kReasonShift | number;
}

// Bytes 8 to 23 of the key: the index has used the first eight.
struct Fingerprint {
  std::uint64_t chooses_bucket = 0;
  std::uint32_t low = 0;
  std::uint16_t high = 0;

  explicit Fingerprint(const BlockKey& key) {
    std::memcpy(&chooses_bucket, key.bytes.data() + 8, 4);
    std::memcpy(&low, key.bytes.data() + 12, sizeof low);
    std::memcpy(&high, key.bytes.data() + 16, sizeof high);
  }
};

}  // namespace

BlockHistory::BlockHistory(std::uint32_t blocks_max)
    : buckets_(std::max(1U, blocks_max / kBucketSlots), kZeroBytes) {}

std::uint32_t BlockHistory::BucketOf(const BlockKey& key) const noexcept {
  return static_cast<std::uint32_t>(Fingerprint(key).chooses_bucket * buckets_.size() >> 32);
}

void BlockHistory::Prefetch(const BlockKey& key) const noexcept {
  __builtin_prefetch(&buckets_[BucketOf(key)]);
}

std::uint32_t BlockHistory::SlotOf(const BlockKey& key, const Bucket& bucket) const noexcept {
  const Fingerprint fingerprint(key);
  std::uint32_t slot = 0;
  while (slot < kBucketSlots &&
         (bucket.low[slot].load(std::memory_order_acquire) != fingerprint.low ||
          bucket.high[slot].load(std::memory_order_acquire) != fingerprint.high ||
          bucket.value(slot) == 0)) {
    ++slot;
  }
  return slot;
}

EntryIndex BlockHistory::EntryOf(std::uint32_t value) noexcept {
  const std::uint32_t number = value & kEntryMask;
  return value == 0 || number == kEntryMask ? kNoEntry : EntryIndex{number};
}

BlockHistory::Added BlockHistory::Add(const BlockKey& key, MissReason reason, EntryIndex entry) {
  const std::uint32_t value = Pack(reason, entry);
  const std::uint32_t bucket_index = BucketOf(key);
  Bucket& bucket = buckets_[bucket_index];
  std::uint32_t slot = SlotOf(key, bucket);
  const SequenceWrite write(lock_);
  if (slot < kBucketSlots) {
    const EntryIndex replaced = EntryOf(bucket.value(slot));
    bucket.values[slot].store(value, std::memory_order_release);
    return {replaced == entry ? kNoEntry : replaced, bucket_index * kBucketSlots + slot};
  }
  slot = 0;
  while (slot < kBucketSlots && bucket.value(slot) != 0) {
    ++slot;
  }
  EntryIndex forgotten = kNoEntry;
  if (slot == kBucketSlots) {
    slot = bucket.hand;
    forgotten = EntryOf(bucket.value(slot));
    bucket.hand = static_cast<std::uint16_t>((bucket.hand + 1U) % kBucketSlots);
  } else {
    blocks_.store(blocks() + 1, std::memory_order_relaxed);
  }
  const Fingerprint fingerprint(key);
  bucket.low[slot].store(fingerprint.low, std::memory_order_release);
  bucket.high[slot].store(fingerprint.high, std::memory_order_release);
  bucket.values[slot].store(value, std::memory_order_release);
  return {forgotten, bucket_index * kBucketSlots + slot};
}

MissReason BlockHistory::ReasonOf(const BlockKey& key) const {
  const Bucket& bucket = buckets_[BucketOf(key)];
  return lock_.Read([&] {
    const std::uint32_t slot = SlotOf(key, bucket);
    return slot == kBucketSlots ? MissReason::kNeverStored
                                : static_cast<MissReason>(bucket.value(slot) >> kReasonShift);
  });
}

EntryIndex BlockHistory::Take(const BlockKey& key) {
  Bucket& bucket = buckets_[BucketOf(key)];
  const std::uint32_t slot = SlotOf(key, bucket);
  if (slot == kBucketSlots) {
    return kNoEntry;
  }
  const std::uint32_t value = bucket.value(slot);
  const SequenceWrite write(lock_);
  bucket.values[slot].store(0, std::memory_order_release);
  blocks_.store(blocks() - 1, std::memory_order_relaxed);
  return EntryOf(value);
}

void BlockHistory::DropEntry(std::uint32_t place) {
  Bucket& bucket = buckets_[place / kBucketSlots];
  const std::uint32_t slot = place % kBucketSlots;
  if (bucket.value(slot) != 0) {
    const SequenceWrite write(lock_);
    bucket.values[slot].store(bucket.value(slot) | kEntryMask, std::memory_order_release);
  }
}

std::size_t BlockHistory::memory_bytes() const noexcept {
  return buckets_.size_bytes();
}

}  // namespace kvferry::engine
