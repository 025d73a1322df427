// BlockModel: what callers may find under each key; the truth that the simulation checks against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/types.h"

namespace kvferry::stress {

// A key's blocks have versions: the bytes follow from key and version. A version ends when nothing
// put under it can turn up any more: when an erasure has ended that no put of the key overlapped.
// So a caller who asked while versions a to b were current must get one of these, or a miss.
//
// Thread-compatible.
class BlockModel {
 public:
  BlockModel(std::uint32_t namespaces, std::uint32_t keys_per_namespace);

  std::uint32_t keys() const { return static_cast<std::uint32_t>(states_.size()); }
  std::uint32_t keys_per_namespace() const { return keys_per_namespace_; }
  std::uint32_t NamespaceOf(std::uint32_t key) const { return key / keys_per_namespace_; }
  const BlockKey& BlockKeyOf(std::uint32_t key) const { return block_keys_[key]; }
  std::uint32_t VersionOf(std::uint32_t key) const { return states_[key].version; }
  // The oldest version that may be there: the current one, but after a crash.
  std::uint32_t OldestOf(std::uint32_t key) const { return states_[key].oldest; }

  void FillBytes(std::uint32_t key, std::uint32_t version, std::span<std::byte> bytes) const;
  // Whether the bytes are the block's in one of the versions `oldest` to `newest`.
  bool IsOneOf(std::uint32_t key,
               std::uint32_t oldest,
               std::uint32_t newest,
               std::span<const std::byte> bytes) const;

  void BeginPut(std::uint32_t key);
  void EndPut(std::uint32_t key);
  // An erasure names the moment when it began, so that its end knows which puts overlapped it.
  void BeginErase(std::uint32_t key);
  void EndErase(std::uint32_t key);
  // It ended early, and may have erased the block or not.
  void GiveUpErase(std::uint32_t key);
  // Puts that have not ended do not count: the engine discards them.
  void EraseNamespace(std::uint32_t space);

  // What persists: from the end of a Persist until something is begun that may end it.
  std::uint32_t DisturbancesOf(std::uint32_t key) const { return states_[key].disturbances; }
  void EndPersist(std::uint32_t key, std::uint32_t disturbances_before);
  void Disturb(std::uint32_t key);
  bool IsPersisted(std::uint32_t key) const { return states_[key].is_persisted; }

  // The process has gone, with all its unfinished requests: what was erased and not told so may be
  // back.
  void Crash();
  // What persists is known no more; and where the drives did not do what they said, neither is what
  // was erased.
  void LoseManifest(bool are_drives_honest);

 private:
  struct State {
    std::uint32_t version = 0;
    std::uint32_t oldest = 0;
    std::uint32_t oldest_durable = 0;  // What a crash can bring back at most.
    std::uint32_t disturbances = 0;
    bool is_persisted = false;
    std::uint32_t puts = 0;      // Unfinished.
    std::uint32_t erases = 0;    // Unfinished.
    bool is_overlapped = false;  // A put was under way during one of them.
  };

  std::uint32_t keys_per_namespace_;
  std::vector<State> states_;
  std::vector<BlockKey> block_keys_;
};

}  // namespace kvferry::stress
