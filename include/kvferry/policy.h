// EvictionPolicy: who leaves a tier first, and who is let in; an extension point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kvferry/export.h"
#include "kvferry/function_ref.h"
#include "kvferry/status.h"
#include "kvferry/types.h"

namespace kvferry {

// What is known of one request. Zero means unknown.
struct Access {
  Instant now;  // The engine's clock, or the trace's time.
  // From 1, rising with each new request. Calls with the same number are one request that grew.
  std::uint64_t request = 0;
  std::uint64_t session = 0;
  std::uint32_t tag = 0;  // Caller's category (system prompt, tool output, ...).
};

// Only what was evicted may be remembered.
enum class RemoveReason : std::uint8_t { kEvicted, kErased, kFailed };

// In which order one request's blocks are touched and stored. A property of the policy: the owner
// walks the path that way, so that evictions fall between the same two touches everywhere.
enum class TouchOrder : std::uint8_t { kTailFirst, kHeadFirst };

// Orders the residents of one tier by how soon they may go. Pure bookkeeping: no clock, no I/O, no
// lock, no randomness but what its seed gives, so a trace replays to the same victims. Policies
// that know the future (MIN) live in src/replay/.
//
// The owner's side, for each request:
//   1. OnRequest with the whole path, root first, resident or not.
//   2. Along the path in touch_order(), block by block: a resident one goes into OnHit (neighbours
//      may share one call); for an absent one that is to be stored, Admit decides; while the tier
//      is full, TakeVictim names one and OnRemove follows for it; then OnInsert.
// A live request may grow: OnRequest comes again with the same Access::request and a longer path,
// and step 2 for its new blocks. Blocks then arrive root first whatever touch_order() says; a
// policy for which that matters orders them by their place on the path.
//
// Thread-compatible. The engine calls each instance from the mover thread only.
class KVFERRY_EXPORT EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  virtual TouchOrder touch_order() const noexcept { return TouchOrder::kTailFirst; }

  // One request's blocks, root first, resident or not; the first `leading_resident` are hits.
  // Announces only: touches come by OnHit. `path` stays as it is until the end of step 2.
  virtual void OnRequest(const Access& access,
                         std::span<const EntryIndex> path,
                         std::uint32_t leading_resident) = 0;
  // Resident blocks of the announced request, neighbours on its path, root first. The policy
  // touches them in its touch_order().
  virtual void OnHit(std::span<const EntryIndex> run) = 0;
  // Whether an absent block may be stored now. False: it bypasses this tier, and its number stays
  // the policy's until Forget() reports it.
  virtual bool Admit(EntryIndex entry) = 0;
  // `parent` is the block before it on the path, kNoEntry for a root.
  virtual void OnInsert(EntryIndex entry, EntryIndex parent) = 0;
  // The next to go, or kNoEntry if all are held. May change the policy's state (hands, queues);
  // the owner must remove what it was given (OnRemove with kEvicted) before anything else.
  virtual EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) = 0;
  // A guess at who goes next, the first of them first; returns how many it wrote. Changes nothing:
  // the owner asks for what it needs to know of them, which mostly has to come from far memory.
  virtual std::size_t PeekVictims(std::span<EntryIndex> /*next*/) const noexcept { return 0; }
  // Also for residents that the owner removes by itself.
  virtual void OnRemove(EntryIndex entry, RemoveReason reason) = 0;
  // Writes numbers that the policy no longer remembers and the owner may give to other blocks;
  // returns how many. Empty unless PolicyOptions::reports_forgotten.
  virtual std::size_t Forget(std::span<EntryIndex> freed) = 0;

  // What it uses for its tables, in bytes; 0 where it does not say.
  virtual std::size_t memory_bytes() const noexcept { return 0; }
};

// How large a policy's world is. All memory is taken at creation.
struct PolicyOptions {
  std::uint32_t entries_max = 0;    // Entry numbers lie below this.
  std::uint32_t residents_max = 0;  // Capacity of the tier in blocks, at least 1.
  // Departed entries remembered at most; 0: the policy's own multiple.
  std::uint32_t remembered_max = 0;
  std::uint64_t seed = 1;
  bool reports_forgotten = false;  // The owner reuses numbers and will call Forget().
};

// Policies by name: "leaf-lru", "arc", "second-sight:lfu", "adaptive:leaf-lru", ...
// (docs/policies.md).
// kInvalidArgument with the list of names for an unknown one or options out of range.
KVFERRY_EXPORT Result<std::unique_ptr<EvictionPolicy>> CreateEvictionPolicy(
    std::string_view name, const PolicyOptions& options);

// The names without admission prefixes, in the order of docs/policies.md.
KVFERRY_EXPORT std::vector<std::string_view> EvictionPolicyNames();

}  // namespace kvferry
