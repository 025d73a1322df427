// NamespaceTable: the namespaces of an engine, their epochs, and the quotas of their tenants.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "kvferry/engine.h"
#include "kvferry/namespace.h"
#include "kvferry/requests.h"
#include "kvferry/status.h"

#include "base/mutex.h"

namespace kvferry::engine {

// A namespace's epoch goes up when it is erased: blocks of an earlier one are no hits any more.
// Entries are never removed, so what is read of one that was added does not change, except for
// atomics. All memory is taken at creation.
//
// Beside them there are namespaces of lost blocks, one for each block size: blocks that were found
// where nothing tells their namespace any more. The first namespace that names the key of one takes
// it over, since a key has its namespace in its hash. They have no handle that callers know, no
// tenant, and indexes from namespaces_max() on; whenever a namespace of that block size is erased,
// they are erased too, as what is lost may be its.
//
// Thread-safe.
class NamespaceTable {
 public:
  static constexpr std::uint32_t kBlockBytesMin = 4096;
  static constexpr std::uint32_t kBlockBytesMax = std::uint32_t{64} << 20;

  explicit NamespaceTable(std::uint32_t namespaces_max);

  // As Engine::AddNamespace; kResourceExhausted when the table is full.
  Result<NamespaceHandle> Add(const Namespace& description, const NamespaceOptions& options);
  // The same for a namespace that a store remembers, whose quotas nobody has told yet.
  Result<NamespaceHandle> Restore(const NamespaceId& id,
                                  std::uint32_t block_bytes,
                                  std::uint32_t tenant);

  static constexpr std::uint32_t kLostMax = 8;
  // The namespace of lost blocks of that size. kUnavailable: a namespace with such blocks was
  // erased before, so they cannot be told from erased ones. kResourceExhausted: there are kLostMax.
  Result<NamespaceHandle> AddLost(std::uint32_t block_bytes);
  bool IsLost(std::uint16_t index) const noexcept { return index >= namespaces_max_; }

  bool Contains(NamespaceHandle in) const noexcept {
    return in.index < count_.load(std::memory_order_acquire);
  }

  // Of namespaces that were added -----------------------------------------------------------------
  // How often it was erased. A call may outlast so many erasures that its epoch comes round again,
  // so it is known by this number.
  std::uint32_t erasures(NamespaceHandle in) const noexcept {
    return entries_[in.index].erasures.load();
  }
  std::uint8_t epoch(NamespaceHandle in) const noexcept {
    return static_cast<std::uint8_t>(erasures(in));
  }
  std::uint32_t block_bytes(NamespaceHandle in) const noexcept {
    return entries_[in.index].block_bytes;
  }
  std::uint32_t tenant_index(std::uint16_t index) const noexcept { return entries_[index].tenant; }
  const NamespaceId& id(NamespaceHandle in) const noexcept { return entries_[in.index].id; }
  // The tenant's number as its namespaces' options give it; 0: without one.
  std::uint32_t tenant_number(NamespaceHandle in) const noexcept {
    return tenants_[entries_[in.index].tenant].number;
  }
  std::uint32_t namespaces_max() const noexcept { return namespaces_max_; }
  // Those of lost blocks included.
  std::uint32_t indexes_max() const noexcept { return namespaces_max_ + kLostMax; }

  // Tenants have indexes below this.
  std::uint32_t tenants_max() const noexcept { return namespaces_max_ + 1; }
  std::uint64_t host_quota(std::uint32_t tenant) const noexcept {
    return tenants_[tenant].host_quota_bytes.load(std::memory_order_relaxed);
  }
  std::uint64_t nvme_quota(std::uint32_t tenant) const noexcept {
    return tenants_[tenant].nvme_quota_bytes.load(std::memory_order_relaxed);
  }

  // Begins a new epoch. kUnavailable while blocks of the one before the last may be left: epochs
  // are counted in eight bits, and two of them would look alike one day. kInvalidArgument for an
  // unknown namespace.
  Status BeginErase(NamespaceHandle in);
  // A namespace with blocks of an earlier epoch to remove; each in its turn, so that one that is
  // erased again and again keeps no other waiting. For one thread.
  std::optional<std::uint16_t> NextToSweep();
  // They are removed.
  void EndSweep(NamespaceHandle in);

 private:
  static constexpr std::uint64_t kNoQuota = ~std::uint64_t{0};

  struct Entry {
    NamespaceId id;
    std::uint32_t block_bytes = 0;
    std::uint32_t tenant = 0;
    std::atomic<std::uint32_t> erasures = 0;
    std::atomic<bool> is_sweeping = false;
  };
  struct TenantEntry {
    std::uint32_t number = 0;
    std::atomic<std::uint64_t> host_quota_bytes = kNoQuota;
    std::atomic<std::uint64_t> nvme_quota_bytes = kNoQuota;
  };

  Status CheckSwept(const Entry& entry) const KVFERRY_REQUIRES(mutex_);
  void BeginEpoch(Entry& entry) KVFERRY_REQUIRES(mutex_);
  // Null: there are no lost blocks of that size.
  Entry* FindLost(std::uint32_t block_bytes) KVFERRY_REQUIRES(mutex_);
  // A new entry is seen by nobody before it is published.
  Result<NamespaceHandle> FindOrAdd(const NamespaceId& id, const NamespaceOptions& options)
      KVFERRY_REQUIRES(mutex_);
  void Publish(NamespaceHandle added) KVFERRY_REQUIRES(mutex_);
  // The index of a tenant, a new one if it is not known yet; one for each namespace suffices.
  std::uint32_t TenantIndex(const NamespaceOptions& options) KVFERRY_REQUIRES(mutex_);

  std::uint32_t namespaces_max_;
  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<TenantEntry[]> tenants_;  // The first one is that of namespaces without.
  std::atomic<std::uint32_t> count_ = 0;
  std::atomic<std::uint32_t> lost_count_ = 0;
  std::atomic<std::uint32_t> sweeps_ = 0;
  std::uint32_t next_to_sweep_ = 0;  // Of the thread that sweeps.
  Mutex mutex_;
  std::uint32_t tenant_count_ KVFERRY_GUARDED_BY(mutex_) = 1;
};

}  // namespace kvferry::engine
