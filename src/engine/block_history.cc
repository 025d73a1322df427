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
    : bucket_count_(std::max(1U, blocks_max / kBucketSlots)),
      buckets_(std::make_unique<Bucket[]>(bucket_count_)) {}

void BlockHistory::Prefetch(const BlockKey& key) const noexcept {
  const Fingerprint fingerprint(key);
  const Bucket* bucket = buckets_.get() + (fingerprint.chooses_bucket * bucket_count_ >> 32);
  __builtin_prefetch(bucket);
  __builtin_prefetch(&bucket->high);  // In its second line.
}

BlockHistory::Place BlockHistory::Locate(const BlockKey& key) const {
  const Fingerprint fingerprint(key);
  Bucket& bucket = buckets_[fingerprint.chooses_bucket * bucket_count_ >> 32];
  std::uint32_t slot = 0;
  while (slot < kBucketSlots && (bucket.values[slot] == 0 || bucket.low[slot] != fingerprint.low ||
                                 bucket.high[slot] != fingerprint.high)) {
    ++slot;
  }
  return {&bucket, slot};
}

EntryIndex BlockHistory::EntryOf(std::uint32_t value) noexcept {
  const std::uint32_t number = value & kEntryMask;
  return value == 0 || number == kEntryMask ? kNoEntry : EntryIndex{number};
}

EntryIndex BlockHistory::Add(const BlockKey& key, MissReason reason, EntryIndex entry) {
  const std::uint32_t value = Pack(reason, entry);
  const MutexLock lock(mutex_);
  auto [bucket, slot] = Locate(key);
  if (slot < kBucketSlots) {
    const EntryIndex replaced = EntryOf(bucket->values[slot]);
    bucket->values[slot] = value;
    return replaced == entry ? kNoEntry : replaced;
  }
  slot = 0;
  while (slot < kBucketSlots && bucket->values[slot] != 0) {
    ++slot;
  }
  EntryIndex forgotten = kNoEntry;
  if (slot == kBucketSlots) {
    slot = bucket->hand;
    forgotten = EntryOf(bucket->values[slot]);
    bucket->hand = static_cast<std::uint16_t>((bucket->hand + 1U) % kBucketSlots);
  } else {
    ++blocks_;
  }
  const Fingerprint fingerprint(key);
  bucket->low[slot] = fingerprint.low;
  bucket->high[slot] = fingerprint.high;
  bucket->values[slot] = value;
  return forgotten;
}

MissReason BlockHistory::ReasonOf(const BlockKey& key) const {
  const MutexLock lock(mutex_);
  const auto [bucket, slot] = Locate(key);
  return slot == kBucketSlots ? MissReason::kNeverStored
                              : static_cast<MissReason>(bucket->values[slot] >> kReasonShift);
}

EntryIndex BlockHistory::Take(const BlockKey& key) {
  const MutexLock lock(mutex_);
  const auto [bucket, slot] = Locate(key);
  if (slot == kBucketSlots) {
    return kNoEntry;
  }
  const EntryIndex entry = EntryOf(bucket->values[slot]);
  bucket->values[slot] = 0;
  --blocks_;
  return entry;
}

std::optional<std::uint32_t> BlockHistory::PlaceOf(const BlockKey& key) const {
  const MutexLock lock(mutex_);
  const auto [bucket, slot] = Locate(key);
  if (slot == kBucketSlots) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(bucket - buckets_.get()) * kBucketSlots + slot;
}

void BlockHistory::DropEntry(std::uint32_t place) {
  const MutexLock lock(mutex_);
  std::uint32_t& value = buckets_[place / kBucketSlots].values[place % kBucketSlots];
  if (value != 0) {
    value |= kEntryMask;
  }
}

std::uint32_t BlockHistory::blocks() const {
  const MutexLock lock(mutex_);
  return blocks_;
}

std::size_t BlockHistory::memory_bytes() const noexcept {
  return std::size_t{bucket_count_} * sizeof(Bucket);
}

}  // namespace kvferry::engine
