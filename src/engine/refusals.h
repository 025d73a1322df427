// What a request is told that would hold or persist too much: the option, amounts, a remedy.
#pragma once

#include <cstdint>

#include "kvferry/status.h"

namespace kvferry::engine {

// The block at which a Pin came to its end.
struct RefusedPin {
  std::uint32_t index = 0;   // Of the block among the Pin's keys,
  std::uint32_t blocks = 0;  // and how many there are.
  std::uint32_t block_bytes = 0;
};

struct RefusedPersist {
  std::uint32_t blocks = 0;      // That the request names,
  std::uint64_t more_bytes = 0;  // and what those of them would take that are not persisted yet.
  std::uint64_t persisted_bytes = 0;
  std::uint64_t persisted_bytes_max = 0;
};

struct PersistOverQuota {
  std::uint32_t blocks = 0;      // That the request names,
  std::uint64_t more_bytes = 0;  // and what those of them would take that are not in the tier yet.
  std::uint32_t tenant = 0;
  std::uint64_t tenant_bytes = 0;
  std::uint64_t tenant_bytes_max = 0;
};

// All are kResourceExhausted. A request that ends must not fail for want of memory: Ok where there
// is none for the text.

// Handles would keep more than host.held_percent.
Status HeldTooMuch(const RefusedPin& pin,
                   std::uint64_t held_bytes,
                   std::uint64_t held_bytes_max) noexcept;
// There is no handle left.
Status HandlesUsedUp(const RefusedPin& pin, std::uint32_t handles_max) noexcept;
// The block has as many handles as can be counted.
Status HeldTooOften(const RefusedPin& pin) noexcept;

// More than nvme.protected_percent.
Status PersistedTooMuch(const RefusedPersist& persist) noexcept;
// More than the tenant's nvme_quota_bytes.
Status PersistedOverQuota(const PersistOverQuota& persist) noexcept;
// The tier has too few segments to keep any block.
Status CannotPersist(std::uint32_t segments, std::uint32_t segments_min) noexcept;
// The namespace's blocks are larger than the tier can write.
Status TooLargeToPersist(std::uint32_t block_bytes, std::uint64_t block_bytes_max) noexcept;

}  // namespace kvferry::engine
