// First fit over a bitmap, a word at a time.
#include "tiers/host/chunk_pool.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "base/assert.h"

namespace kvferry::tiers {
namespace {

constexpr std::uint32_t kWordBits = 64;

}  // namespace

ChunkPool::ChunkPool(std::uint32_t chunk_count)
    : free_bits_((std::size_t{chunk_count} + kWordBits - 1) / kWordBits),
      chunk_count_(chunk_count),
      free_count_(chunk_count),
      length_absent_min_(chunk_count + 1) {
  KVFERRY_CHECK(chunk_count < 0xffffffffU);
  Flip(0, chunk_count);
}

std::optional<std::uint32_t> ChunkPool::Find(std::uint32_t length) {
  KVFERRY_CHECK(length > 0);
  if (length >= length_absent_min_) {
    return std::nullopt;
  }
  lowest_free_ = Next(lowest_free_, true);
  for (std::uint32_t first = lowest_free_; first < chunk_count_;) {
    const std::uint32_t end = Next(first, false);
    if (end - first >= length) {
      return first;
    }
    first = Next(end, true);
  }
  length_absent_min_ = length;
  return std::nullopt;
}

std::optional<std::uint32_t> ChunkPool::Acquire(std::uint32_t length) {
  const std::optional<std::uint32_t> first = Find(length);
  if (first) {
    Flip(*first, length);
    free_count_ -= length;
  }
  return first;
}

void ChunkPool::Release(std::uint32_t first, std::uint32_t length) {
  KVFERRY_CHECK(first < chunk_count_);
  KVFERRY_CHECK(length <= chunk_count_ - first);
  KVFERRY_CHECK(Next(first, true) >= first + length);
  Flip(first, length);
  free_count_ += length;
  lowest_free_ = std::min(lowest_free_, first);
  length_absent_min_ = chunk_count_ + 1;
}

bool ChunkPool::IsFree(std::uint32_t chunk) const noexcept {
  return (free_bits_[chunk / kWordBits] >> (chunk % kWordBits) & 1) != 0;
}

std::uint32_t ChunkPool::Next(std::uint32_t chunk, bool is_free) const noexcept {
  if (chunk >= chunk_count_) {
    return chunk_count_;
  }
  std::uint64_t below = ~std::uint64_t{0} << (chunk % kWordBits);
  for (std::size_t word = chunk / kWordBits; word < free_bits_.size(); ++word) {
    const std::uint64_t wanted = (is_free ? free_bits_[word] : ~free_bits_[word]) & below;
    if (wanted != 0) {
      // Bits behind the last chunk count as used, hence the limit.
      return std::min(chunk_count_, static_cast<std::uint32_t>(word) * kWordBits +
                                        static_cast<std::uint32_t>(std::countr_zero(wanted)));
    }
    below = ~std::uint64_t{0};
  }
  return chunk_count_;
}

void ChunkPool::Flip(std::uint32_t first, std::uint32_t length) noexcept {
  for (std::uint32_t chunk = first; chunk < first + length; ++chunk) {
    free_bits_[chunk / kWordBits] ^= std::uint64_t{1} << (chunk % kWordBits);
  }
}

}  // namespace kvferry::tiers
