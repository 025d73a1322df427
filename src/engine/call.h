// Call: a request as the mover gets it, checked and with its defaults filled in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/device.h"
#include "kvferry/requests.h"
#include "kvferry/types.h"

namespace kvferry::engine {

// Borrows what the request borrows.
struct Call {
  enum class Kind : std::uint8_t { kPut, kGet, kPrefetch, kPin, kErase, kPersist, kUnpersist };

  Kind kind = Kind::kGet;
  NamespaceHandle in;
  bool has_parent = false;
  bool has_own_deadline = false;
  TierSet tiers = TierSet::All();
  std::uint32_t erasures = 0;  // Of the namespace, when the call was made.
  std::uint32_t block_bytes = 0;
  std::uint32_t tag = 0;
  std::uint64_t session = 0;
  std::uint64_t load_bytes_max = ~std::uint64_t{0};
  Instant deadline;
  std::span<const BlockKey> keys;
  std::span<const std::byte* const> sources;
  std::span<std::byte* const> targets;
  BlockKey parent;
  // Put and Get: the blocks lie in a server's tensors instead of host memory.
  bool is_device = false;
  std::uint32_t tensors = 0;
  std::uint32_t event = 0;  // What has to be done before; of DeviceArrows::Admitted.
  std::span<const DeviceBlock> blocks;

  // Of the blocks that it may get and store.
  std::uint8_t epoch() const { return static_cast<std::uint8_t>(erasures); }
};

}  // namespace kvferry::engine
