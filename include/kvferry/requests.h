// What callers hand to an engine and get back: tickets, requests, completions and miss reasons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvferry/export.h"
#include "kvferry/status.h"
#include "kvferry/types.h"

namespace kvferry {

// A namespace that was added to an engine. A plain value; only that engine understands it, and one
// from before EraseNamespace stays valid.
struct NamespaceHandle {
  std::uint16_t index = 0xffff;  // The default names none.
  auto operator<=>(const NamespaceHandle&) const = default;
};

// Names one asynchronous request. A plain value: dropping it neither cancels nor leaks anything,
// and one whose request has ended is recognised as stale.
struct Ticket {
  std::uint32_t entry = 0;
  std::uint32_t generation = 0;  // 0 never names a request.
  auto operator<=>(const Ticket&) const = default;
};

// Why a block is not there. The numbers are for statistics; append, never renumber.
enum class MissReason : std::uint8_t {
  kNone = 0,           // It is there.
  kNeverStored,        // Nothing is remembered of this key.
  kNotAdmitted,        // A put was refused by the admission rule or the request's own tiers.
  kDropped,            // A put or a read found no room: everything was held or in flight.
  kOverQuota,          // A put or persist would have taken its tenant above the quota; or a pin or
                       // persist would have kept more than the options allow.
  kEvicted,            // It left the last tier that held it, for a block that was put or asked for.
  kErased,             // Erase, or EraseNamespace.
  kOtherNamespace,     // The key is there, stored under another namespace.
  kFailedCheck,        // Its bytes were read and do not match their checksum.
  kReadFailed,         // The drive, or the GPU, reported an error.
  kTooLate,            // The deadline passed before its bytes were there.
  kNotAllowed,         // Only in tiers that the request may not use, or beyond its load limit.
  kEvictedByPrefetch,  // As kEvicted, for a block that was brought up on a guess.
  kEvictedByQuota,     // For another block of its tenant, which was at its quota.
  kEvictedByReuse,     // Its place on the drive was the oldest and was needed.
  kTierOff,            // It was in the NVMe tier only, which has gone off; it may come back.
};
inline constexpr std::size_t kMissReasonCount = 16;

// "never stored" and so on; never null.
KVFERRY_EXPORT std::string_view ToString(MissReason reason);

// Tiers as a set, for what a request may use.
struct TierSet {
  std::uint8_t bits = 0;

  static constexpr TierSet All() { return {0b111}; }
  static constexpr TierSet Of(TierKind tier) {
    return {static_cast<std::uint8_t>(1U << static_cast<unsigned>(tier))};
  }
  constexpr bool Has(TierKind tier) const { return (bits & Of(tier).bits) != 0; }
  constexpr TierSet operator|(TierSet other) const {
    return {static_cast<std::uint8_t>(bits | other.bits)};
  }
  bool operator==(const TierSet&) const = default;
};

// What every request may say about itself.
struct RequestOptions {
  // By then the request has ended, kDeadlineExceeded if it was not done. The default stands for
  // EngineOptions::deadline_ms from the call on.
  Instant deadline;
  std::uint64_t session = 0;       // As in Access; 0: unknown.
  std::uint32_t tag = 0;           // As in Access.
  TierSet tiers = TierSet::All();  // Which tiers may serve it or store its blocks.
  // What may be read from below the host tier for it, in bytes; blocks beyond are kNotAllowed.
  std::uint64_t load_bytes_max = ~std::uint64_t{0};
};

// Stores blocks. Everything that is pointed to is borrowed until the completion.
struct PutRequest {
  NamespaceHandle in;
  // Neighbours on one path, root first. A block that is there already is not stored again.
  std::span<const BlockKey> keys;
  // The bytes of each block in host form, as many as the namespace's blocks have.
  std::span<const std::byte* const> sources;
  const BlockKey* parent = nullptr;  // The block before the first; null: it is a root, or unknown.
  RequestOptions options = {};
};

// Copies the leading blocks of a path that are there into the caller's memory. Borrows like
// PutRequest.
struct GetRequest {
  NamespaceHandle in;
  std::span<const BlockKey> keys;
  std::span<std::byte* const> targets;  // One for each key.
  RequestOptions options = {};
};

// Names blocks: for Prefetch (bring them into host memory), Pin (and keep them there) and Erase.
// `keys` is borrowed until the completion.
struct KeysRequest {
  NamespaceHandle in;
  std::span<const BlockKey> keys;
  RequestOptions options = {};
};

// How a request ended.
struct Completion {
  Ticket ticket;
  // Ok: every block was seen to; a miss is no error. Otherwise what stopped it: kDeadlineExceeded,
  // kCancelled, kResourceExhausted, ...
  Status status;
  // Get, Pin, Prefetch: leading blocks that are ready, also when status is an error. Put: leading
  // blocks that are there when it ends: its first ones may have left for its last. Erase: blocks
  // that are gone.
  std::uint32_t blocks_ready = 0;
  // Put: those that this request stored, also where they have left again; others were there.
  std::uint32_t blocks_stored = 0;
  // Why block number blocks_ready is not ready; kNone if all are, or none was looked at.
  MissReason next_missing = MissReason::kNone;
};

// How much of a prefix each tier holds. Counts follow one another: the fastest tier first; a block
// counts for the fastest tier that holds it, the first block of a slower tier ends a count.
struct PrefixMatch {
  std::uint32_t hbm_blocks = 0;
  std::uint32_t host_blocks = 0;
  std::uint32_t nvme_blocks = 0;
  MissReason next_missing = MissReason::kNone;  // Why the block after them is missing.
  std::uint32_t blocks() const { return hbm_blocks + host_blocks + nvme_blocks; }
  bool operator==(const PrefixMatch&) const = default;
};

}  // namespace kvferry
