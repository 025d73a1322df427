// HostCache: room for a block, by quotas, places and victims.
#include <algorithm>
#include <array>

#include "base/assert.h"
#include "engine/host_cache.h"

namespace kvferry::engine {
namespace {

// Victims that one reservation may cost. More are only needed where blocks of another size have to
// empty a whole slab; past that the put is dropped rather than the cache.
constexpr std::uint32_t kVictimsMax = 1'024;
// Residents that a search for a victim passes over for soft reasons (another size, not written
// down yet) before it takes any that is free to go.
constexpr std::uint32_t kPassedOverMax = 256;
// Victims that are looked at together.
constexpr std::uint32_t kVictimsAhead = 16;

}  // namespace

struct HostCache::Wish {
  std::uint32_t tenant = 0xffffffff;  // Must be of it; all ones: of any.
  std::uint32_t size_bytes = 0;       // Should be of it; 0: of any.
};

MissReason HostCache::CannotHold(const BlockRecord& block, std::uint64_t count) const {
  if (count > options_.residents_max || count > slabs_.SlotsMax(block.size_bytes)) {
    return MissReason::kDropped;
  }
  return count * block.size_bytes > namespaces_.host_quota(TenantOf(block)) ? MissReason::kOverQuota
                                                                            : MissReason::kNone;
}

bool HostCache::WaitsForOwn(const BlockRecord& block) const {
  return tenant_waits_[TenantOf(block)] && CannotHold(block, 1) == MissReason::kNone;
}

void HostCache::NoteMayLeave(RecordIndex record) {
  tenant_waits_[TenantOf(book_.index()[record])] = false;
}

MissReason HostCache::MakeRoom(const Claim& claim,
                               const BlockRecord& block,
                               tiers::HostSlot& slot) {
  // Nobody has to leave for a block that would find no place even then.
  if (const MissReason obstacle = CannotHold(block, 1); obstacle != MissReason::kNone) {
    return obstacle;
  }
  const std::uint32_t tenant = TenantOf(block);
  std::uint32_t victims = 0;
  while (tenant_bytes_[tenant] + block.size_bytes > namespaces_.host_quota(tenant)) {
    // To look again before anything has changed would be to go through all residents for nothing.
    if (tenant_waits_[tenant] || ++victims > kVictimsMax ||
        !EvictOne(claim, {.tenant = tenant}, MissReason::kEvictedByQuota)) {
      return MissReason::kOverQuota;
    }
  }
  while (true) {
    if (residents_ < options_.residents_max) {
      if (const auto reserved = slabs_.Reserve(block.size_bytes)) {
        slot = *reserved;
        return MissReason::kNone;
      }
    }
    const Wish wish{.size_bytes = victims < kVictimsMax / 2 ? std::uint32_t{block.size_bytes} : 0};
    if (++victims > kVictimsMax || !EvictOne(claim, wish, claim.reason_to_leave)) {
      return MissReason::kDropped;
    }
  }
}

bool HostCache::EvictOne(const Claim& claim, Wish wish, MissReason reason) {
  std::uint32_t passed_over = 0;
  bool is_any_busy = false;  // One that will be free to go without anybody's doing.
  const bool spares_unwritten = offloads_wanted_ < residents_;
  const auto is_held = [&](EntryIndex entry) {
    const RecordIndex record = book_.RecordOf(entry);
    const BlockRecord& block = book_.index()[record];
    const BlockUse& use = book_.index().use(record);
    if (wish.tenant != 0xffffffff && TenantOf(block) != wish.tenant) {
      return true;
    }
    if (block.host_state != CopyState::kResident || use.readers > 0 ||
        (block.is_persisted != 0 && block.is_durable == 0)) {
      is_any_busy = true;
      return true;
    }
    if (use.handles > 0 || record == claim.parent) {
      return true;
    }
    if (passed_over < kPassedOverMax &&
        ((wish.size_bytes != 0 && block.size_bytes != wish.size_bytes) ||
         (spares_unwritten && block.is_offload_wanted))) {
      ++passed_over;
      return true;
    }
    return false;
  };
  EntryIndex victim = policy_->TakeVictim(is_held);
  if (victim == kNoEntry && passed_over > 0) {
    passed_over = kPassedOverMax;
    victim = policy_->TakeVictim(is_held);
  }
  if (victim == kNoEntry) {
    if (wish.tenant != 0xffffffff && is_any_busy) {
      tenant_waits_[wish.tenant] = true;
    }
    return false;
  }
  if (evictions_to_peek_ == 0) {
    PrefetchVictims();
  }
  --evictions_to_peek_;
  Evict(book_.RecordOf(victim), reason);
  return true;
}

// To take a block out of the tables is to look at two or three places in far memory, whose
// addresses a single eviction knows too late. Asked for together they cost little more than one.
void HostCache::PrefetchVictims() {
  std::array<EntryIndex, kVictimsAhead> next{};
  const std::size_t count = policy_->PeekVictims(next);
  for (const EntryIndex entry : std::span(next).first(count)) {
    const RecordIndex record = book_.RecordOf(entry);
    if (record != kNoRecord) {
      book_.Prefetch(book_.index()[record].key);
    }
  }
  for (const EntryIndex entry : std::span(next).first(count)) {
    const RecordIndex record = book_.RecordOf(entry);
    if (record != kNoRecord) {
      book_.index().PrefetchOverflow(book_.index()[record].key);
    }
  }
  evictions_to_peek_ = kVictimsAhead;
}

void HostCache::Evict(RecordIndex record, MissReason reason) {
  const BlockRecord& block = book_.index()[record];
  KVFERRY_CHECK(block.host_state == CopyState::kResident);
  policy_->OnRemove(block.entry, RemoveReason::kEvicted);
  --residents_;
  ++stats_.evictions;
  --stats_.blocks_resident;
  stats_.bytes_resident -= block.size_bytes;
  stats_.bytes_draining += block.size_bytes;  // For the moment that FreePlace ends.
  prefetches_wasted_ += block.is_prefetched ? 1 : 0;
  if (block.is_offload_wanted) {
    --offloads_wanted_;
    ++offloads_skipped_;
  }
  book_.index().Update(record, [](BlockRecord& changed) {
    changed.host_state = CopyState::kDraining;
    changed.is_offload_wanted = false;
    changed.is_prefetched = false;
  });
  FreePlace(record);
  if (block.nvme_state != CopyState::kResident) {
    book_.Depart(record, reason);
    book_.ReleaseIfUnused(record);
  }
  // Numbers are taken back later: the one of the block that wants in is still between hands.
}

// Of a draining copy without users.
void HostCache::FreePlace(RecordIndex record) {
  const BlockRecord& block = book_.index()[record];
  KVFERRY_CHECK(block.host_state == CopyState::kDraining);
  slabs_.Free(tiers::HostSlot{block.host_slot});
  stats_.bytes_draining -= block.size_bytes;
  stats_.bytes_free += block.size_bytes;
  tenant_bytes_[TenantOf(block)] -= block.size_bytes;
  NoteMayLeave(record);
  book_.index().Update(record,
                       [](BlockRecord& changed) { changed.host_state = CopyState::kAbsent; });
}

}  // namespace kvferry::engine
