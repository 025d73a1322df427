// Entries that are filled once and then only read.
#include "engine/namespace_table.h"

#include <string>

#include "base/assert.h"

namespace kvferry::engine {

NamespaceTable::NamespaceTable(std::uint32_t namespaces_max)
    : namespaces_max_(namespaces_max),
      entries_(std::make_unique<Entry[]>(namespaces_max + kLostMax)),
      tenants_(std::make_unique<TenantEntry[]>(namespaces_max + 1)) {
  KVFERRY_CHECK(namespaces_max > 0 && namespaces_max < 0xffff - kLostMax);
}

std::uint32_t NamespaceTable::TenantIndex(const NamespaceOptions& options) {
  if (options.tenant == 0) {
    return 0;
  }
  std::uint32_t index = 1;
  while (index < tenant_count_ && tenants_[index].number != options.tenant) {
    ++index;
  }
  if (index == tenant_count_) {
    tenants_[index].number = options.tenant;
    ++tenant_count_;
  }
  return index;
}

Result<NamespaceHandle> NamespaceTable::Add(const Namespace& description,
                                            const NamespaceOptions& options) {
  KVFERRY_ASSIGN_OR_RETURN(const NamespaceId id, IdentifyNamespace(description));
  if (options.block_bytes < kBlockBytesMin || options.block_bytes > kBlockBytesMax) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "block_bytes is " + std::to_string(options.block_bytes) +
                             "; a block has " + std::to_string(kBlockBytesMin) + " to " +
                             std::to_string(kBlockBytesMax) + " bytes");
  }
  if (options.tenant == 0 &&
      (options.host_quota_bytes != kNoQuota || options.nvme_quota_bytes != kNoQuota)) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "tenant 0 has no quota; give the namespace another tenant number, or "
                         "leave host_quota_bytes and nvme_quota_bytes as they are");
  }
  const MutexLock lock(mutex_);
  KVFERRY_ASSIGN_OR_RETURN(const NamespaceHandle added, FindOrAdd(id, options));
  const std::uint32_t tenant = entries_[added.index].tenant;
  if (tenant != 0) {
    tenants_[tenant].host_quota_bytes = options.host_quota_bytes;
    tenants_[tenant].nvme_quota_bytes = options.nvme_quota_bytes;
  }
  Publish(added);
  return added;
}

Result<NamespaceHandle> NamespaceTable::Restore(const NamespaceId& id,
                                                std::uint32_t block_bytes,
                                                std::uint32_t tenant) {
  if (block_bytes < kBlockBytesMin || block_bytes > kBlockBytesMax) {
    return Status::Error(StatusCode::kDataLoss, "a stored namespace has blocks of " +
                                                    std::to_string(block_bytes) + " bytes");
  }
  NamespaceOptions options;
  options.block_bytes = block_bytes;
  options.tenant = tenant;
  const MutexLock lock(mutex_);
  KVFERRY_ASSIGN_OR_RETURN(const NamespaceHandle restored, FindOrAdd(id, options));
  Publish(restored);
  return restored;
}

Result<NamespaceHandle> NamespaceTable::FindOrAdd(const NamespaceId& id,
                                                  const NamespaceOptions& options) {
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  std::uint32_t index = 0;
  while (index < count && entries_[index].id != id) {
    ++index;
  }
  if (index == namespaces_max_) {
    return Status::Error(
        StatusCode::kResourceExhausted,
        "all " + std::to_string(namespaces_max_) + " namespaces are in use; raise namespaces_max");
  }
  Entry& entry = entries_[index];
  if (index < count) {
    if (entry.block_bytes != options.block_bytes) {
      return Status::Error(StatusCode::kInvalidArgument,
                           "the namespace was added with blocks of " +
                               std::to_string(entry.block_bytes) + " bytes, not " +
                               std::to_string(options.block_bytes) +
                               "; what changes a block's size belongs into its description");
    }
    if (tenants_[entry.tenant].number != options.tenant) {
      return Status::Error(StatusCode::kInvalidArgument,
                           "the namespace was added for tenant " +
                               std::to_string(tenants_[entry.tenant].number) + ", not " +
                               std::to_string(options.tenant) +
                               "; give it the first one's number, or another Namespace::tenant");
    }
  } else {
    entry.id = id;
    entry.block_bytes = options.block_bytes;
    entry.tenant = TenantIndex(options);
  }
  return NamespaceHandle{static_cast<std::uint16_t>(index)};
}

void NamespaceTable::Publish(NamespaceHandle added) {
  // Pairs with Contains(): who sees the count sees the entry, and its tenant's quota.
  if (added.index == count_.load(std::memory_order_relaxed)) {
    count_.store(added.index + 1U, std::memory_order_release);
  }
}

Status NamespaceTable::BeginErase(NamespaceHandle in) {
  if (!Contains(in)) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "namespace handle " + std::to_string(in.index) +
                             " is none of this engine's; AddNamespace gives them");
  }
  const MutexLock lock(mutex_);
  Entry& entry = entries_[in.index];
  Entry* const lost = FindLost(entry.block_bytes);
  KVFERRY_RETURN_IF_ERROR(CheckSwept(entry));
  if (lost != nullptr) {
    KVFERRY_RETURN_IF_ERROR(CheckSwept(*lost));
    BeginEpoch(*lost);
  }
  BeginEpoch(entry);
  return Status::Ok();
}

Status NamespaceTable::CheckSwept(const Entry& entry) const {
  return entry.is_sweeping
             ? Status::Error(StatusCode::kUnavailable,
                             "blocks of the namespace's last erasure are still being removed; try "
                             "again shortly")
             : Status::Ok();
}

void NamespaceTable::BeginEpoch(Entry& entry) {
  ++entry.erasures;  // From here on no older block is a hit.
  // After the epoch: who begins to sweep knows by it what is old.
  entry.is_sweeping = true;
  ++sweeps_;
}

NamespaceTable::Entry* NamespaceTable::FindLost(std::uint32_t block_bytes) {
  for (std::uint32_t i = 0; i < lost_count_; ++i) {
    Entry& lost = entries_[namespaces_max_ + i];
    if (lost.block_bytes == block_bytes) {
      return &lost;
    }
  }
  return nullptr;
}

Result<NamespaceHandle> NamespaceTable::AddLost(std::uint32_t block_bytes) {
  const MutexLock lock(mutex_);
  const std::uint32_t lost_count = lost_count_;
  const Entry* const known = FindLost(block_bytes);
  bool was_erased = known != nullptr && known->erasures > 0;
  for (std::uint32_t index = 0; index < count_; ++index) {
    was_erased =
        was_erased || (entries_[index].block_bytes == block_bytes && entries_[index].erasures > 0);
  }
  if (was_erased) {
    return Status::Error(StatusCode::kUnavailable,
                         "a namespace with blocks of " + std::to_string(block_bytes) +
                             " bytes was erased before lost ones were found");
  }
  if (known != nullptr) {
    return NamespaceHandle{static_cast<std::uint16_t>(known - entries_.get())};
  }
  if (lost_count == kLostMax) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "blocks of too many sizes are lost; the others are left out");
  }
  entries_[namespaces_max_ + lost_count].block_bytes = block_bytes;
  lost_count_ = lost_count + 1;
  return NamespaceHandle{static_cast<std::uint16_t>(namespaces_max_ + lost_count)};
}

std::optional<std::uint16_t> NamespaceTable::NextToSweep() {
  if (sweeps_ == 0) {
    return std::nullopt;
  }
  const std::uint32_t count = count_.load(std::memory_order_acquire);
  const std::uint32_t all = count + lost_count_;
  for (std::uint32_t step = 0; step < all; ++step) {
    const std::uint32_t place = (next_to_sweep_ + step) % all;
    const std::uint32_t index = place < count ? place : namespaces_max_ + place - count;
    if (entries_[index].is_sweeping) {
      next_to_sweep_ = place + 1;
      return static_cast<std::uint16_t>(index);
    }
  }
  return std::nullopt;
}

void NamespaceTable::EndSweep(NamespaceHandle in) {
  const MutexLock lock(mutex_);
  KVFERRY_CHECK(entries_[in.index].is_sweeping);
  entries_[in.index].is_sweeping = false;
  --sweeps_;
}

}  // namespace kvferry::engine
