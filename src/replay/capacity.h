// Capacity: a cache size as a user writes it, and what it is in blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvferry/status.h"

namespace kvferry::replay {

// A number of blocks, a share of the distinct blocks, or bytes.
struct Capacity {
  enum class Kind : std::uint8_t { kBlocks, kShare, kBytes };

  Kind kind = Kind::kBlocks;
  std::uint64_t value = 0;    // Blocks, bytes, or the share's digits without the point.
  std::uint64_t divisor = 1;  // Of a share: share = value / divisor, exactly as written.
  std::string text;           // As written.
};

// "5000", "2.5%", "64GiB". kInvalidArgument, naming `text`, for anything else, for 0 of anything,
// for a share above 100 % or with more than six decimals.
Result<Capacity> ParseCapacity(std::string_view text);

// Blocks of a capacity, at least one: floor(share x distinct), or 1 where that is 0;
// floor(bytes / block_bytes); or as given. kInvalidArgument if bytes are asked for and
// `block_bytes` is 0 or larger than they are, or above 2^32 - 2 blocks.
Result<std::uint32_t> CapacityBlocks(const Capacity& capacity,
                                     std::uint64_t distinct_blocks,
                                     std::uint64_t block_bytes);

// "600s", "10min", "2h", "0.5" (seconds): whole milliseconds. kInvalidArgument, naming `text`, for
// anything else, negative numbers and more than 3660 days.
Result<std::int64_t> ParseDurationMs(std::string_view text);

}  // namespace kvferry::replay
