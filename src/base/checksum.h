// Checksum: XXH3-128 of a block's bytes, seeded by its key; xxHash's only home is behind it.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/types.h"

namespace kvferry {

// Sixteen bytes in xxHash's canonical order (high half first, big-endian), which is also the order
// on disk. Finds accidents, not attacks: whoever can write the bytes can write a checksum to match.
struct Checksum {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const Checksum&) const = default;
};

// The checksum's seed: the key's first eight bytes, little-endian. So a whole and well-formed block
// that lies where another one should be does not pass for it.
std::uint64_t ChecksumSeed(const BlockKey& key) noexcept;

Checksum ChecksumOf(std::span<const std::byte> bytes, std::uint64_t seed) noexcept;
inline Checksum ChecksumOf(std::span<const std::byte> bytes, const BlockKey& key) noexcept {
  return ChecksumOf(bytes, ChecksumSeed(key));
}

// Copies `source` to `target`, as CopyBytes does, and gives the checksum of the bytes it copied:
// each is read from memory once. `target` is at least as large and does not overlap `source`, which
// nobody changes meanwhile.
//
// Thread-safe for different targets.
Checksum CopyAndChecksum(std::span<const std::byte> source,
                         std::span<std::byte> target,
                         std::uint64_t seed) noexcept;
inline Checksum CopyAndChecksum(std::span<const std::byte> source,
                                std::span<std::byte> target,
                                const BlockKey& key) noexcept {
  return CopyAndChecksum(source, target, ChecksumSeed(key));
}

// The same, and whether the checksum is `expected`. If not, `target` holds bytes that nobody may
// use.
[[nodiscard]] inline bool CopyAndVerify(std::span<const std::byte> source,
                                        std::span<std::byte> target,
                                        const BlockKey& key,
                                        const Checksum& expected) noexcept {
  return CopyAndChecksum(source, target, key) == expected;
}

// The checksum over bytes that come in pieces. No allocation. Thread-compatible.
class ChecksumStream {
 public:
  explicit ChecksumStream(std::uint64_t seed) noexcept;
  explicit ChecksumStream(const BlockKey& key) noexcept : ChecksumStream(ChecksumSeed(key)) {}

  void Update(std::span<const std::byte> bytes) noexcept;
  // Of all bytes so far; more may follow.
  Checksum Finish() const noexcept;

 private:
  static constexpr std::size_t kStateBytes =
      576;  // Checked against the library's own where it is used.

  alignas(64) std::array<std::byte, kStateBytes> state_;
};

// One stretch of a CopyAndChecksum that its caller makes in several.
void CopyInto(ChecksumStream& stream,
              std::span<const std::byte> source,
              std::span<std::byte> target) noexcept;

}  // namespace kvferry
