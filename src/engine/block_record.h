// BlockRecord: what the engine knows of one block that it holds; the states of its copies.
#pragma once

#include <cstdint>

#include "kvferry/types.h"

#include "base/checksum.h"

namespace kvferry::engine {

// A record's number. Given again to another block once nothing refers to it.
enum class RecordIndex : std::uint32_t {};
inline constexpr RecordIndex kNoRecord{0xffffffff};
constexpr std::uint32_t NumberOf(RecordIndex record) {
  return static_cast<std::uint32_t>(record);
}

// The state of one copy of a block. The arrows, and who makes them:
//
//    kAbsent --Reserve--> kFilling --Publish (bytes are there, checked)--> kResident
//       ^                    |                                                |
//       |      Abandon (the fill failed)                Withdraw (evicted, erased, failed a check)
//       |                    |                                                |
//       +--------------------+------------- kDraining <-----------------------+
//                            the last reader or handle is gone
//
// What must hold; the tests name the number that they guard:
//   1. A place belongs to exactly one copy, or is free.
//   2. The bytes of a resident copy do not change.
//   3. A copy with a handle or a reader keeps its place.
//   4. A transfer or a copy job reads resident or draining copies and writes filling ones.
//   5. Only a resident copy is ever a hit, and it became resident after its bytes were there.
//   6. A record is in the index until its last copy is withdrawn or it is erased, and never after.
//   7. When the engine closes every request has had its completion, then every transfer its end.
enum class CopyState : std::uint8_t { kAbsent, kFilling, kResident, kDraining };

// 64 bytes. Written by the mover thread only: the key and what follows `entry` through BlockIndex,
// since Match() reads them meanwhile, the rest freely.
struct alignas(64) BlockRecord {
  BlockKey key;
  Checksum checksum;            // Of the bytes in host form; known once a copy is resident.
  std::uint32_t host_slot = 0;  // Where host_state is not kAbsent.
  // In host form; with flags of the NVMe copy that only the mover reads.
  std::uint32_t size_bytes : 27 = 0;
  std::uint32_t is_durable : 1 = 0;        // Survives a restart.
  std::uint32_t is_persisted : 1 = 0;      // Must not leave: Persist was asked for.
  std::uint32_t is_row_persisted : 1 = 0;  // And its row says so.
  std::uint32_t was_hit : 1 = 0;           // Read since it was written.
  std::uint32_t is_moving : 1 = 0;         // To another segment.
  EntryIndex entry = kNoEntry;             // The host policy's number, while it has one.
  std::uint16_t namespace_index = 0;
  std::uint8_t namespace_epoch = 0;
  CopyState host_state : 2 = CopyState::kAbsent;
  CopyState nvme_state : 2 = CopyState::kAbsent;
  bool is_indexed : 1 = false;         // Can be found by its key.
  bool is_prefetched : 1 = false;      // Brought up on a guess, and not asked for since.
  bool is_offload_wanted : 1 = false;  // Waits to be written down.
  bool is_rewriting : 1 = false;       // Its row is being recorded again.
};
static_assert(sizeof(BlockRecord) == 64);
// What a block's size has at most, in bits of BlockRecord::size_bytes.
inline constexpr std::uint32_t kBlockSizeMask = (std::uint32_t{1} << 27) - 1;

// Who refers to the record's copies, and where the lower one lies.
struct BlockUse {
  std::uint32_t nvme_page = 0;  // In 4 KiB pages from the tier's start; where it has a copy there.
  std::uint16_t readers = 0;    // Copy jobs and transfers that read the host copy.
  std::uint16_t handles = 0;

  // A filling host copy has neither; the number of what fills it stands in their place.
  std::uint32_t filler() const { return readers | std::uint32_t{handles} << 16; }
  void set_filler(std::uint32_t number) {
    readers = static_cast<std::uint16_t>(number);
    handles = static_cast<std::uint16_t>(number >> 16);
  }
};
static_assert(sizeof(BlockUse) == 8);

}  // namespace kvferry::engine
