// The value types that every part of the interface speaks in.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace kvferry {

using Clock = std::chrono::steady_clock;
using Instant = Clock::time_point;
using Duration = Clock::duration;

// Fastest first. The order is the direction of offload; onboard runs against it.
enum class TierKind : std::uint8_t { kHbm, kHost, kNvme };

// Content hash of a full block chained with its parent's key, so one key names one whole prefix.
// SHA-256; compared in full on every hit.
struct BlockKey {
  std::array<std::byte, 32> bytes{};
  auto operator<=>(const BlockKey&) const = default;
};

// The owner's number for a block, from the first time it is seen until the policy forgets it, which
// may be long after its copy went. The index keeps key -> number; a policy never sees a key.
enum class EntryIndex : std::uint32_t {};
inline constexpr EntryIndex kNoEntry{0xffffffff};

}  // namespace kvferry
