// HostCache: the blocks in host memory: who gets a place, who has to leave for it, who is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvferry/policy.h"
#include "kvferry/requests.h"
#include "kvferry/stats.h"

#include "engine/block_book.h"
#include "engine/namespace_table.h"
#include "tiers/host/host_slabs.h"

namespace kvferry::engine {

// What a host cache works with. Everything must outlive it.
struct HostCacheParts {
  BlockBook& book;  // With numbers for residents, remembered and spare ones.
  tiers::HostSlabs& slabs;
  const NamespaceTable& namespaces;
};

// Puts together the slabs (where), the policy (who leaves) and the book (who is where). Moves no
// bytes.
//
// For the mover thread.
class HostCache {
  struct Token {};  // Only Create can name it.

 public:
  struct Options {
    std::uint32_t residents_max = 0;
    std::uint32_t remembered_max = 0;
    std::uint32_t path_max = 2;  // Blocks that one Touch names at most.
    std::uint64_t seed = 1;
    std::string policy;
    bool has_lower_tier = false;  // What is published waits to be written down.
    // Waiting blocks that keep their order. As many numbers of 4 bytes are kept, but no more than
    // residents_max.
    std::uint32_t offload_queue_max = 32'768;
  };
  // Numbers beside residents and remembered ones, for blocks that are about to be stored.
  static constexpr std::uint32_t kEntriesSpare = 16;

  // kInvalidArgument for a policy that does not exist.
  static Result<std::unique_ptr<HostCache>> Create(const Options& options,
                                                   const HostCacheParts& parts);
  HostCache(Token token,
            const Options& options,
            const HostCacheParts& parts,
            std::unique_ptr<EvictionPolicy> policy);

  // Who asks for a place, and for what.
  struct Claim {
    Access access;
    RecordIndex parent = kNoRecord;  // The block before it on the path, where it is known.
    bool is_needed = false;          // Somebody waits for its bytes: the policy cannot refuse it.
    // What a block that has to leave for it is told.
    MissReason reason_to_leave = MissReason::kEvicted;
  };
  // A reserved copy is kFilling; otherwise why there is none: kNotAdmitted, kDropped (no room),
  // kOverQuota.
  struct Reserved {
    RecordIndex record = kNoRecord;
    MissReason refusal = MissReason::kNone;
  };

  // Touches blocks of one path that are hits, root first.
  void Touch(const Access& access, std::span<const RecordIndex> path);
  // Whether `count` blocks like this one could be here at one time, were nothing else here: kNone,
  // or what is in the way, kDropped or kOverQuota.
  MissReason CannotHold(const BlockRecord& block, std::uint64_t count) const;
  // After kOverQuota: whether the block's tenant has others here that are busy, so that there will
  // be room without anybody's doing.
  bool WaitsForOwn(const BlockRecord& block) const;
  // The record's block has become free to go, perhaps: what its tenant waits for.
  void NoteMayLeave(RecordIndex record);
  // A place for a block that has no record. Of `fresh` the key, the size and the namespace count.
  Reserved ReserveNew(const Claim& claim, const BlockRecord& fresh);
  // A place for one that has a record, and no host copy.
  Reserved ReserveAgain(const Claim& claim, RecordIndex record);

  std::span<std::byte> BytesOf(RecordIndex record);
  // The bytes of a filling copy are there and right: it is resident.
  void Publish(RecordIndex record, const Checksum& checksum);
  // The fill failed: the place is free again. A record without another copy departs for `reason`.
  void Abandon(RecordIndex record, MissReason reason);
  // The same, but something may write to the place as long as the process lives: it is never given
  // again. The record stays with it, and has a reader for good.
  void Quarantine(RecordIndex record, MissReason reason);
  // A resident copy goes: at once, or when its last reader and handle are gone (Settle). The record
  // stays as it is.
  void Withdraw(RecordIndex record, RemoveReason reason);
  // After a reader or a handle has gone: frees the place of a withdrawn copy that nobody uses.
  void Settle(RecordIndex record);

  // The record is to count as another tenant's.
  void ChangeTenant(RecordIndex record, std::uint32_t tenant);

  // Of one block.
  static constexpr std::uint16_t kHandlesMax = 0xffff;
  // Handles count against a share of the tier. False: it would be exceeded, or kHandlesMax.
  bool Hold(RecordIndex record, std::uint64_t held_bytes_max);
  void LetGo(RecordIndex record);

  // Blocks that wait to be written down, oldest first as far as they are queued; the block no
  // longer waits. Those that the queue had no room for are looked for, a piece of the table with
  // each call: kNoRecord with offloads_wanted() above 0 asks for another call.
  RecordIndex TakeOffload();
  std::uint32_t offloads_wanted() const noexcept { return offloads_wanted_; }
  void WantOffload(RecordIndex record);

  const TierStats& stats() const noexcept { return stats_; }
  std::uint64_t offloads_skipped() const noexcept { return offloads_skipped_; }
  std::uint64_t prefetches_wasted() const noexcept { return prefetches_wasted_; }
  std::uint64_t held_bytes() const noexcept { return held_bytes_; }
  std::uint64_t tenant_bytes(std::uint32_t tenant) const { return tenant_bytes_[tenant]; }
  std::uint32_t residents() const noexcept { return residents_; }
  // Of the policy: what it takes for each number, as its header says.
  std::size_t policy_bytes() const noexcept;
  void CheckInvariants() const;

 private:
  struct Wish;  // What a victim has to be like.

  std::uint32_t TenantOf(const BlockRecord& record) const;
  void Announce(const Claim& claim, EntryIndex entry);
  // kNone, or why there is no room; `slot` is reserved then.
  MissReason MakeRoom(const Claim& claim, const BlockRecord& block, tiers::HostSlot& slot);
  bool EvictOne(const Claim& claim, Wish wish, MissReason reason);
  void PrefetchVictims();
  void Evict(RecordIndex record, MissReason reason);
  void FreePlace(RecordIndex record);
  void StopFilling(RecordIndex record);
  void BeginFilling(RecordIndex record, tiers::HostSlot slot);

  Options options_;
  BlockBook& book_;
  tiers::HostSlabs& slabs_;
  const NamespaceTable& namespaces_;
  std::unique_ptr<EvictionPolicy> policy_;
  TierStats stats_;
  std::uint32_t residents_ = 0;  // As the policy counts: filling and resident ones.
  std::uint64_t held_bytes_ = 0;
  std::uint64_t offloads_skipped_ = 0;
  std::uint64_t prefetches_wasted_ = 0;
  std::vector<std::uint64_t> tenant_bytes_;
  // By tenant: none of its blocks can leave for another one before NoteMayLeave, though some will.
  std::vector<bool> tenant_waits_;
  std::vector<EntryIndex> path_;
  // Records that wait to be written down: those in the ring (some of which no longer do), and
  // those that did not fit into it, which a scan finds.
  std::vector<RecordIndex> offloads_;
  std::size_t offload_first_ = 0;
  std::size_t offload_count_ = 0;
  std::uint32_t offloads_wanted_ = 0;
  std::uint32_t scan_position_ = 0;
  std::uint32_t evictions_to_peek_ = 0;  // Until PrefetchVictims() is due again.
};

}  // namespace kvferry::engine
