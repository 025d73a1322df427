// What has a place: the books of it, and what waits to be written down.
#include "engine/host_cache.h"

#include <algorithm>

#include "base/assert.h"

namespace kvferry::engine {
namespace {

// Records that one search for a waiting block looks at, past those in order.
constexpr std::uint32_t kScannedMax = 512;

}  // namespace

Result<std::unique_ptr<HostCache>> HostCache::Create(const Options& options,
                                                     const HostCacheParts& parts) {
  PolicyOptions policy_options;
  policy_options.entries_max = options.residents_max + options.remembered_max + kEntriesSpare;
  policy_options.residents_max = options.residents_max;
  policy_options.remembered_max = std::max(1U, options.remembered_max);
  policy_options.seed = options.seed;
  policy_options.reports_forgotten = true;
  KVFERRY_ASSIGN_OR_RETURN(std::unique_ptr<EvictionPolicy> policy,
                           CreateEvictionPolicy(options.policy, policy_options));
  return std::make_unique<HostCache>(Token(), options, parts, std::move(policy));
}

HostCache::HostCache(Token /*token*/,
                     const Options& options,
                     const HostCacheParts& parts,
                     std::unique_ptr<EvictionPolicy> policy)
    : options_(options),
      book_(parts.book),
      slabs_(parts.slabs),
      namespaces_(parts.namespaces),
      policy_(std::move(policy)),
      tenant_bytes_(namespaces_.tenants_max()),
      tenant_waits_(namespaces_.tenants_max()),
      offloads_(options.has_lower_tier ? std::min(options.offload_queue_max, options.residents_max)
                                       : 0) {
  path_.reserve(std::max(2U, options.path_max));
  stats_.bytes_total = slabs_.usage().bytes_total;
  stats_.bytes_free = stats_.bytes_total;
}

std::uint32_t HostCache::TenantOf(const BlockRecord& record) const {
  return namespaces_.tenant_index(record.namespace_index);
}

void HostCache::Touch(const Access& access, std::span<const RecordIndex> path) {
  path_.clear();
  for (const RecordIndex record : path) {
    const EntryIndex entry = book_.index()[record].entry;
    KVFERRY_CHECK(entry != kNoEntry);
    path_.push_back(entry);
  }
  policy_->OnRequest(access, path_, static_cast<std::uint32_t>(path_.size()));
  policy_->OnHit(path_);
  book_.TakeBack(*policy_);
}

// The path that a policy hears of is the block and the one before it: what comes further up was
// announced with the blocks there, as one request that grows.
void HostCache::Announce(const Claim& claim, EntryIndex entry) {
  path_.clear();
  std::uint32_t leading = 0;
  if (claim.parent != kNoRecord) {
    const BlockRecord& parent = book_.index()[claim.parent];
    if (parent.entry != kNoEntry && parent.entry != entry &&
        (parent.host_state == CopyState::kFilling || parent.host_state == CopyState::kResident)) {
      path_.push_back(parent.entry);
      leading = 1;
    }
  }
  path_.push_back(entry);
  policy_->OnRequest(claim.access, path_, leading);
}

HostCache::Reserved HostCache::ReserveNew(const Claim& claim, const BlockRecord& fresh) {
  const BlockBook::Loan loan = book_.LendFor(fresh.key);
  if (loan.entry == kNoEntry) {
    book_.EndLoan(fresh.key, loan, MissReason::kDropped, false);
    return {kNoRecord, MissReason::kDropped};
  }
  Announce(claim, loan.entry);
  MissReason refusal = MissReason::kNotAdmitted;
  bool was_told = true;
  tiers::HostSlot slot{};
  RecordIndex record = kNoRecord;
  if (policy_->Admit(loan.entry)) {
    was_told = false;
    refusal = MakeRoom(claim, fresh, slot);
    if (refusal == MissReason::kNone) {
      record = book_.AddRecord(fresh, loan);
      if (record == kNoRecord) {
        slabs_.Free(slot);
        refusal = MissReason::kDropped;
      }
    }
  }
  if (record == kNoRecord) {
    book_.EndLoan(fresh.key, loan, refusal, was_told);
    book_.TakeBack(*policy_);
    return {kNoRecord, refusal};
  }
  policy_->OnInsert(loan.entry, path_.size() == 2 ? path_.front() : kNoEntry);
  book_.TakeBack(*policy_);
  BeginFilling(record, slot);
  return {record, MissReason::kNone};
}

HostCache::Reserved HostCache::ReserveAgain(const Claim& claim, RecordIndex record) {
  const BlockRecord& block = book_.index()[record];
  KVFERRY_CHECK(block.host_state == CopyState::kAbsent && block.is_indexed);
  BlockBook::Loan loan = book_.LendFor(record);
  if (loan.entry == kNoEntry) {
    return {kNoRecord, MissReason::kDropped};
  }
  Announce(claim, loan.entry);
  MissReason refusal = MissReason::kNotAdmitted;
  tiers::HostSlot slot{};
  const bool is_admitted = policy_->Admit(loan.entry);
  if (is_admitted || claim.is_needed) {
    refusal = MakeRoom(claim, block, slot);
    if (refusal == MissReason::kNone) {
      book_.GiveEntry(record, loan);
      policy_->OnInsert(loan.entry, path_.size() == 2 ? path_.front() : kNoEntry);
      book_.TakeBack(*policy_);
      BeginFilling(record, slot);
      return {record, MissReason::kNone};
    }
  }
  if (is_admitted && loan.is_fresh) {
    book_.EndLoan(block.key, loan, MissReason::kNone, false);
  } else {
    book_.GiveEntry(record, loan);  // The policy may remember it, under this number.
  }
  book_.TakeBack(*policy_);
  return {kNoRecord, refusal};
}

void HostCache::BeginFilling(RecordIndex record, tiers::HostSlot slot) {
  book_.index().Update(record, [&](BlockRecord& block) {
    block.host_slot = slot.page;
    block.host_state = CopyState::kFilling;
  });
  const BlockRecord& block = book_.index()[record];
  stats_.bytes_filling += block.size_bytes;
  stats_.bytes_free -= block.size_bytes;
  tenant_bytes_[TenantOf(block)] += block.size_bytes;
  ++residents_;
}

std::span<std::byte> HostCache::BytesOf(RecordIndex record) {
  const BlockRecord& block = book_.index()[record];
  KVFERRY_CHECK(block.host_state != CopyState::kAbsent);
  return slabs_.BytesOf(tiers::HostSlot{block.host_slot}, block.size_bytes);
}

void HostCache::Publish(RecordIndex record, const Checksum& checksum) {
  const BlockRecord& block = book_.index()[record];
  KVFERRY_CHECK(block.host_state == CopyState::kFilling && block.is_indexed);
  stats_.bytes_filling -= block.size_bytes;
  stats_.bytes_resident += block.size_bytes;
  ++stats_.blocks_resident;
  book_.index().use(record).set_filler(0);
  book_.index().Update(record, [&](BlockRecord& changed) {
    changed.checksum = checksum;
    changed.host_state = CopyState::kResident;
  });
  NoteMayLeave(record);
}

// A filling copy that nobody wants any more drains.
void HostCache::StopFilling(RecordIndex record) {
  const BlockRecord& block = book_.index()[record];
  KVFERRY_CHECK(block.host_state == CopyState::kFilling);
  if (block.entry != kNoEntry) {
    policy_->OnRemove(block.entry, RemoveReason::kFailed);
    --residents_;
  }
  stats_.bytes_filling -= block.size_bytes;
  stats_.bytes_draining += block.size_bytes;
  book_.index().use(record).set_filler(0);
  book_.index().Update(record,
                       [](BlockRecord& changed) { changed.host_state = CopyState::kDraining; });
}

void HostCache::Abandon(RecordIndex record, MissReason reason) {
  const BlockRecord& block = book_.index()[record];
  StopFilling(record);
  FreePlace(record);
  if (block.is_indexed && block.nvme_state != CopyState::kResident) {
    book_.Depart(record, reason);
  }
  book_.TakeBack(*policy_);
  book_.ReleaseIfUnused(record);
}

void HostCache::Quarantine(RecordIndex record, MissReason reason) {
  StopFilling(record);
  book_.index().use(record).readers = 1;
  const BlockRecord& block = book_.index()[record];
  if (block.is_indexed && block.nvme_state != CopyState::kResident) {
    book_.Depart(record, reason);
  }
  book_.TakeBack(*policy_);
}

void HostCache::Withdraw(RecordIndex record, RemoveReason reason) {
  const BlockRecord& block = book_.index()[record];
  if (block.host_state == CopyState::kFilling) {
    // Whoever fills it will abandon it; the policy need not wait for that.
    if (block.entry != kNoEntry) {
      policy_->OnRemove(block.entry, reason);
      --residents_;
      book_.TakeBack(*policy_);
      KVFERRY_CHECK(block.entry == kNoEntry);  // What was erased is not remembered.
    }
    return;
  }
  if (block.host_state != CopyState::kResident) {
    return;
  }
  policy_->OnRemove(block.entry, reason);
  --residents_;
  --stats_.blocks_resident;
  stats_.bytes_resident -= block.size_bytes;
  stats_.bytes_draining += block.size_bytes;
  offloads_wanted_ -= block.is_offload_wanted ? 1 : 0;
  book_.index().Update(record, [](BlockRecord& changed) {
    changed.host_state = CopyState::kDraining;
    changed.is_offload_wanted = false;
    changed.is_prefetched = false;
  });
  book_.TakeBack(*policy_);
  Settle(record);
}

void HostCache::Settle(RecordIndex record) {
  const BlockRecord& block = book_.index()[record];
  const BlockUse& use = book_.index().use(record);
  if (use.readers > 0 || use.handles > 0) {
    return;
  }
  if (block.host_state == CopyState::kDraining) {
    FreePlace(record);
  }
  NoteMayLeave(record);
}

void HostCache::ChangeTenant(RecordIndex record, std::uint32_t tenant) {
  const BlockRecord& block = book_.index()[record];
  if (block.host_state != CopyState::kAbsent) {
    tenant_bytes_[TenantOf(block)] -= block.size_bytes;
    tenant_bytes_[tenant] += block.size_bytes;
  }
}

bool HostCache::Hold(RecordIndex record, std::uint64_t held_bytes_max) {
  BlockUse& use = book_.index().use(record);
  const BlockRecord& block = book_.index()[record];
  KVFERRY_CHECK(block.host_state == CopyState::kResident);
  if (use.handles == 0) {
    if (held_bytes_ + block.size_bytes > held_bytes_max) {
      return false;
    }
    held_bytes_ += block.size_bytes;
    ++stats_.blocks_held;
  }
  if (use.handles == kHandlesMax) {
    return false;
  }
  ++use.handles;
  return true;
}

void HostCache::LetGo(RecordIndex record) {
  BlockUse& use = book_.index().use(record);
  KVFERRY_CHECK(use.handles > 0);
  if (--use.handles == 0) {
    held_bytes_ -= book_.index()[record].size_bytes;
    --stats_.blocks_held;
    Settle(record);
    book_.ReleaseIfUnused(record);
  }
}

void HostCache::WantOffload(RecordIndex record) {
  if (!options_.has_lower_tier || book_.index()[record].is_offload_wanted) {
    return;
  }
  book_.index().Update(record, [](BlockRecord& block) { block.is_offload_wanted = true; });
  ++offloads_wanted_;
  if (offload_count_ < offloads_.size()) {
    offloads_[(offload_first_ + offload_count_) % offloads_.size()] = record;
    ++offload_count_;
  }
}

RecordIndex HostCache::TakeOffload() {
  RecordIndex taken = kNoRecord;
  while (offload_count_ > 0 && taken == kNoRecord) {
    const RecordIndex record = offloads_[offload_first_];
    offload_first_ = (offload_first_ + 1) % offloads_.size();
    --offload_count_;
    if (book_.index().is_used(record) && book_.index()[record].is_offload_wanted) {
      taken = record;
    }
  }
  const std::uint32_t records_max = book_.index().records_max();
  for (std::uint32_t step = 0;
       taken == kNoRecord && offloads_wanted_ > 0 && step < std::min(kScannedMax, records_max);
       ++step) {
    scan_position_ = (scan_position_ + 1) % records_max;
    const RecordIndex record{scan_position_};
    if (book_.index().is_used(record) && book_.index()[record].is_offload_wanted) {
      taken = record;
    }
  }
  if (taken != kNoRecord) {
    book_.index().Update(taken, [](BlockRecord& block) { block.is_offload_wanted = false; });
    --offloads_wanted_;
  }
  return taken;
}

std::size_t HostCache::policy_bytes() const noexcept {
  return policy_->memory_bytes();
}

void HostCache::CheckInvariants() const {
  TierStats seen;
  std::uint32_t wanted = 0;
  std::uint64_t held = 0;
  std::uint32_t counted = 0;
  std::vector<std::uint64_t> tenant_bytes(tenant_bytes_.size());
  book_.index().ForEach([&](RecordIndex record) {
    const BlockRecord& block = book_.index()[record];
    const BlockUse& use = book_.index().use(record);
    const std::uint64_t size = block.size_bytes;
    seen.bytes_filling += block.host_state == CopyState::kFilling ? size : 0;
    seen.bytes_resident += block.host_state == CopyState::kResident ? size : 0;
    seen.bytes_draining += block.host_state == CopyState::kDraining ? size : 0;
    seen.blocks_resident += block.host_state == CopyState::kResident ? 1 : 0;
    tenant_bytes[TenantOf(block)] += block.host_state != CopyState::kAbsent ? size : 0;
    wanted += block.is_offload_wanted ? 1 : 0;
    const bool is_filling = block.host_state == CopyState::kFilling;
    held += !is_filling && use.handles > 0 ? size : 0;
    counted += block.entry != kNoEntry && (block.host_state == CopyState::kResident ||
                                           block.host_state == CopyState::kFilling)
                   ? 1
                   : 0;
    KVFERRY_CHECK(block.host_state != CopyState::kAbsent || use.filler() == 0);
    KVFERRY_CHECK(!block.is_offload_wanted || block.host_state == CopyState::kResident);
  });
  KVFERRY_CHECK(seen.bytes_filling == stats_.bytes_filling);
  KVFERRY_CHECK(seen.bytes_resident == stats_.bytes_resident);
  KVFERRY_CHECK(seen.bytes_draining == stats_.bytes_draining);
  KVFERRY_CHECK(seen.blocks_resident == stats_.blocks_resident);
  KVFERRY_CHECK(stats_.bytes_free + seen.bytes_filling + seen.bytes_resident +
                    seen.bytes_draining ==
                stats_.bytes_total);
  KVFERRY_CHECK(tenant_bytes == tenant_bytes_);
  KVFERRY_CHECK(wanted == offloads_wanted_);
  KVFERRY_CHECK(held == held_bytes_);
  KVFERRY_CHECK(counted == residents_);
  const Status slabs = slabs_.CheckInvariants();
  KVFERRY_CHECK(slabs.ok());
}

}  // namespace kvferry::engine
