// ChunkPool: which of an area's chunks are free, and runs of neighbours among them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kvferry::tiers {

// One bit a chunk, allocated at construction only. A run is looked for from the lowest free chunk
// upwards. That no run of a length is left is remembered until something is released, so a full
// pool refuses without looking.
//
// Thread-compatible.
class ChunkPool {
 public:
  // All chunks are free. May throw std::bad_alloc.
  explicit ChunkPool(std::uint32_t chunk_count);

  // The first chunk of `length` (at least 1) free neighbours, or nothing. Find only looks.
  std::optional<std::uint32_t> Find(std::uint32_t length);
  std::optional<std::uint32_t> Acquire(std::uint32_t length);
  // All of them must have been acquired.
  void Release(std::uint32_t first, std::uint32_t length);

  bool IsFree(std::uint32_t chunk) const noexcept;
  std::uint32_t chunk_count() const noexcept { return chunk_count_; }
  std::uint32_t free_count() const noexcept { return free_count_; }

 private:
  // The first chunk from `chunk` on that is free or used; chunk_count_ if there is none.
  std::uint32_t Next(std::uint32_t chunk, bool is_free) const noexcept;
  void Flip(std::uint32_t first, std::uint32_t length) noexcept;

  std::vector<std::uint64_t> free_bits_;
  std::uint32_t chunk_count_;
  std::uint32_t free_count_;
  std::uint32_t lowest_free_ = 0;    // No chunk below it is free.
  std::uint32_t length_absent_min_;  // Runs of this length or more do not exist.
};

}  // namespace kvferry::tiers
