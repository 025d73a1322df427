// CopyBytes: copies of blocks past the processor's caches, which such copies only sweep.
#pragma once

#include <cstddef>
#include <span>

namespace kvferry {

// Copies of at least this size go past the caches where the machine can do that; smaller ones are
// plain.
inline constexpr std::size_t kStreamedBytesMin = std::size_t{16} << 10;

// Copies `source` to `target`, which is at least as large and does not overlap it. For targets that
// no cache holds and that nobody reads soon: a line that is written whole need not be read from
// memory first, which is a third of a plain copy's traffic. Where the target is in the cache, a
// plain copy is twice as quick.
//
// Thread-safe for different targets. Other threads see the bytes after any release that follows.
void CopyBytes(std::span<const std::byte> source, std::span<std::byte> target) noexcept;

// One piece of a longer copy, past the caches whatever its size. Other threads, and devices, see
// the bytes after a release that follows OrderStreamedBytes() on the same thread. Whole lines of 64
// bytes, aligned in `target`, go past the caches; what remains at both ends is copied plainly.
void StreamBytes(std::span<const std::byte> source, std::span<std::byte> target) noexcept;
void OrderStreamedBytes() noexcept;

}  // namespace kvferry
