// Blocking reads and writes of a drive, whole or not at all, in memory fit for direct I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/status.h"

#include "tiers/nvme/store_layout.h"

namespace kvferry::tiers {

// Aligned as a drive's descriptor asks for.
template <std::size_t kSize>
struct alignas(kDiskPageBytes) AlignedBytes {
  std::array<std::byte, kSize> bytes{};
};
using AlignedPage = AlignedBytes<kDiskPageBytes>;

struct PageRead {
  std::size_t size_bytes = 0;  // Less than was asked for at the file's end.
  int error_number = 0;        // Then nothing of the target counts.
};
// From `offset` on; goes on after interruptions and short reads.
PageRead ReadAt(int fd, std::span<std::byte> target, std::uint64_t offset) noexcept;
// 0 or errno.
int WriteAt(int fd, std::span<const std::byte> source, std::uint64_t offset) noexcept;

}  // namespace kvferry::tiers
