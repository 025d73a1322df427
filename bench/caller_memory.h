// CallerMemory: the blocks on the caller's side of a benchmark, in a pool that no cache holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "tiers/host/host_memory.h"

namespace kvferry::bench {

// Blocks are handed out in a circle, so that one comes up again only after all others did.
// Move-only. Thread-compatible.
class CallerMemory {
 public:
  using Copy = FunctionRef<void(std::span<const std::byte> source, std::span<std::byte> target)>;

  // Touches every page. Errors as HostMemory::Map.
  static Result<CallerMemory> Make(std::uint64_t bytes);

  // The next blocks of the circle; all of them together are no more than the pool.
  std::vector<std::byte*> Take(std::size_t blocks, std::uint64_t block_bytes);
  // Copies the next blocks of one half of the pool to the other half.
  void CopyAcross(std::size_t blocks, std::uint64_t block_bytes, Copy copy);

  std::span<std::byte> bytes() const noexcept { return memory_->bytes(); }

 private:
  std::unique_ptr<tiers::HostMemory> memory_;
  std::size_t taken_ = 0;
  std::size_t copied_ = 0;
};

// The first bytes of a block tell its number.
inline void Stamp(std::byte* block, std::uint64_t number) {
  std::memcpy(block, &number, sizeof(number));
}
inline std::uint64_t StampOf(const std::byte* block) {
  std::uint64_t number = 0;
  std::memcpy(&number, block, sizeof(number));
  return number;
}

}  // namespace kvferry::bench
