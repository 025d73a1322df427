// Checksums by xxHash, with the widest vector instructions that the machine has.
#include "base/checksum.h"

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

namespace kvferry {
namespace {

// The dispatcher fills its table at its first long input, without a lock. Filling it here, under
// the lock of a local static, keeps two threads from doing it at once.
void ChooseInstructions() noexcept {
  static const bool kIsChosen = [] {
    static constexpr std::array<std::byte, 1024> kNothing{};
    (void)XXH3_128bits_withSeed(kNothing.data(), kNothing.size(), 1);
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
  return Canonical(XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
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
