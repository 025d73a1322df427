// HashPass: what the checksum of blocks costs that no cache holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvferry::bench {

struct HashCost {
  double cpu_us_per_mib = 0;
  std::uint64_t checksum = 0;  // Of the work done.
};

// Hashes the blocks of `memory`, which has one at least, one after another and round again, until
// the thread has worked for `seconds` and come round once. Cold as long as the memory is several
// times the last cache.
HashCost MeasureHash(std::span<const std::byte> memory, std::uint32_t block_bytes, double seconds);

}  // namespace kvferry::bench
