// Checksums by xxHash, with the widest vector instructions that the machine has.
#include "base/checksum.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

// For the size of the streaming state.
// NOLINTNEXTLINE(readability-identifier-naming): the library's own name.
#define XXH_STATIC_LINKING_ONLY
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "base/assert.h"
#include "base/copy_bytes.h"

namespace kvferry {
namespace {

#if defined(__x86_64__)
[[gnu::target("avx"), gnu::noinline]] void ZeroUpperHalves() noexcept {
  __builtin_ia32_vzeroupper();
}
#endif

// The library's functions for one input (0.8.1, AVX-512) leave the upper halves of vector registers
// in use. All that the thread then does with SSE, a caller's own work too, takes several times as
// long, until something clears them. A call may: by the convention they are nobody's across one.
void LeaveVectorsClean() noexcept {
#if defined(__x86_64__)
  static const bool kHasAvx = __builtin_cpu_supports("avx") != 0;
  if (kHasAvx) {
    ZeroUpperHalves();
  }
#endif
}

// The dispatcher fills its table at its first long input, without a lock. Filling it here, under
// the lock of a local static, keeps two threads from doing it at once.
void ChooseInstructions() noexcept {
  static const bool kIsChosen = [] {
    static constexpr std::array<std::byte, 1024> kNothing{};
    (void)XXH3_128bits_withSeed(kNothing.data(), kNothing.size(), 1);
    LeaveVectorsClean();
    return true;
  }();
  (void)kIsChosen;
}

Checksum Canonical(XXH128_hash_t hash) noexcept {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Checksum checksum;
  static_assert(sizeof(canonical.digest) == sizeof(checksum.bytes));
  std::memcpy(checksum.bytes.data(), canonical.digest, checksum.bytes.size());
  return checksum;
}

XXH3_state_t* StateIn(std::byte* bytes) noexcept {
  return std::launder(reinterpret_cast<XXH3_state_t*>(bytes));
}

}  // namespace

std::uint64_t ChecksumSeed(const BlockKey& key) noexcept {
  std::uint64_t seed = 0;
  for (std::size_t i = sizeof(seed); i-- > 0;) {
    seed = seed << 8 | std::to_integer<std::uint64_t>(key.bytes[i]);
  }
  return seed;
}

Checksum ChecksumOf(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  ChooseInstructions();
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  LeaveVectorsClean();
  return Canonical(hash);
}

Checksum CopyAndChecksum(std::span<const std::byte> source,
                         std::span<std::byte> target,
                         std::uint64_t seed) noexcept {
  KVFERRY_CHECK(target.size() >= source.size());
  if (source.size() < kStreamedBytesMin) {
    CopyBytes(source, target);
    return ChecksumOf(source, seed);
  }
  ChecksumStream stream(seed);
  CopyInto(stream, source, target);
  return stream.Finish();
}

void CopyInto(ChecksumStream& stream,
              std::span<const std::byte> source,
              std::span<std::byte> target) noexcept {
  // Hashed first, then copied from the innermost cache, 4 KiB at a time: with pieces of 2 to 32 KiB
  // and either order tried, this was the quickest, and it stays within one page of both sides.
  constexpr std::size_t kPieceBytes = 4096;
  constexpr std::size_t kLineBytes = 64;
  KVFERRY_CHECK(target.size() >= source.size());
  // Copies end on a line of the target, so that no line is written in two parts.
  const std::size_t above = reinterpret_cast<std::uintptr_t>(target.data()) % kLineBytes;
  std::size_t copied = 0;
  for (std::size_t hashed = 0; hashed < source.size();) {
    const std::size_t piece = std::min(kPieceBytes, source.size() - hashed);
    stream.Update(source.subspan(hashed, piece));
    hashed += piece;
    const std::size_t end = hashed == source.size() ? hashed : hashed - above;
    StreamBytes(source.subspan(copied, end - copied), target.subspan(copied));
    copied = end;
  }
  OrderStreamedBytes();
}

ChecksumStream::ChecksumStream(std::uint64_t seed) noexcept : state_{} {
  static_assert(sizeof(XXH3_state_t) == kStateBytes);
  static_assert(alignof(XXH3_state_t) <= 64);
  ChooseInstructions();
  auto* state = std::construct_at(reinterpret_cast<XXH3_state_t*>(state_.data()));
  KVFERRY_CHECK(XXH3_128bits_reset_withSeed(state, seed) == XXH_OK);
}

void ChecksumStream::Update(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) {  // The library refuses a null pointer even for no bytes.
    return;
  }
  KVFERRY_CHECK(XXH3_128bits_update(StateIn(state_.data()), bytes.data(), bytes.size()) == XXH_OK);
}

Checksum ChecksumStream::Finish() const noexcept {
  const auto* state = std::launder(reinterpret_cast<const XXH3_state_t*>(state_.data()));
  return Canonical(XXH3_128bits_digest(state));
}

}  // namespace kvferry
