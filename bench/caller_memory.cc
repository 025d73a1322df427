// The caller's pool, handed out block by block.
#include "bench/caller_memory.h"

#include <algorithm>

#include "base/assert.h"

namespace kvferry::bench {

Result<CallerMemory> CallerMemory::Make(std::uint64_t bytes) {
  CallerMemory made;
  KVFERRY_ASSIGN_OR_RETURN(made.memory_, tiers::HostMemory::Map({.bytes = bytes}));
  std::ranges::fill(made.bytes(), std::byte{1});
  return made;
}

std::vector<std::byte*> CallerMemory::Take(std::size_t blocks, std::uint64_t block_bytes) {
  const std::span<std::byte> all = bytes();
  KVFERRY_CHECK(blocks * block_bytes <= all.size());
  if (taken_ + blocks * block_bytes > all.size()) {
    taken_ = 0;
  }
  std::vector<std::byte*> taken(blocks);
  for (std::byte*& block : taken) {
    block = all.data() + taken_;
    taken_ += block_bytes;
  }
  return taken;
}

void CallerMemory::CopyAcross(std::size_t blocks, std::uint64_t block_bytes, Copy copy) {
  const std::size_t half = bytes().size() / 2;
  KVFERRY_CHECK(blocks * block_bytes <= half);
  if (copied_ + blocks * block_bytes > half) {
    copied_ = 0;
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    copy(bytes().subspan(copied_, block_bytes), bytes().subspan(half + copied_, block_bytes));
    copied_ += block_bytes;
  }
}

}  // namespace kvferry::bench
