// BlockBook: the records of blocks that are here, the memory of those that were, and the policy's
// numbers for both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/policy.h"
#include "kvferry/requests.h"
#include "kvferry/types.h"

#include "base/huge_array.h"
#include "engine/block_history.h"
#include "engine/block_index.h"
#include "engine/block_record.h"

namespace kvferry::engine {

// A number of the host policy belongs to a record (BlockRecord::entry), to a departed block in the
// history, to nobody while only the policy still remembers it, or is free. It becomes free when the
// policy says so (Forget), or by ReturnUnseen before the policy heard of it. Four bytes a number.
//
// For the mover thread, but for index().Look() and history().ReasonOf().
class BlockBook {
 public:
  struct Options {
    std::uint32_t records_max = 0;
    std::uint32_t entries_max = 0;  // The policy's numbers.
    std::uint32_t history_max = 0;
  };

  explicit BlockBook(const Options& options);

  BlockIndex& index() noexcept { return index_; }
  const BlockIndex& index() const noexcept { return index_; }
  const BlockHistory& history() const noexcept { return history_; }
  std::size_t entry_bytes() const noexcept { return owners_.size_bytes(); }

  // Begins to bring what a look-up of the key reads into the cache.
  void Prefetch(const BlockKey& key) const noexcept {
    index_.Prefetch(key);
    history_.Prefetch(key);
  }

  // A number for a block that may be stored soon.
  struct Loan {
    EntryIndex entry = kNoEntry;  // kNoEntry: none is free.
    bool is_fresh = false;        // The policy has not heard of it.
  };
  // For a key that has no record: the number by which the policy remembers it, or a free one.
  Loan LendFor(const BlockKey& key);
  // For a record that has no host copy.
  Loan LendFor(RecordIndex record);
  // The block is not stored after all: back to the history with it, for `reason`. `was_told`: the
  // policy knows the number now, whatever the loan says.
  void EndLoan(const BlockKey& key, const Loan& loan, MissReason reason, bool was_told);

  // A record for `fresh`, whose number becomes the loan's. kNoRecord: the index is full.
  RecordIndex AddRecord(const BlockRecord& fresh, const Loan& loan);
  void GiveEntry(RecordIndex record, const Loan& loan);
  // A record for a block that was found in a lower tier. kNoRecord: the index is full.
  RecordIndex AddFound(const BlockRecord& fresh);

  // Cannot be found any more. For `reason` it is remembered as departed, its number with it.
  void Depart(RecordIndex record, MissReason reason);
  // How many have, or were for a while in no tier: being read when the copy below went.
  std::uint64_t departures() const noexcept { return departures_; }
  void NoteInNoTier() noexcept { ++departures_; }
  // Frees the record if it is departed and nothing refers to it or its copies.
  void ReleaseIfUnused(RecordIndex record);

  RecordIndex RecordOf(EntryIndex entry) const;
  // Takes back the numbers that the policy has forgotten.
  void TakeBack(EvictionPolicy& policy);

  // Stops the process unless records and numbers agree; for tests and the simulation.
  void CheckInvariants() const;

 private:
  // What the two high bits of an owner say of the low thirty.
  static constexpr std::uint32_t kKindMask = 0xc0000000;
  static constexpr std::uint32_t kRecord = 0x00000000;     // A record's number.
  static constexpr std::uint32_t kFree = 0x40000000;       // The next free number.
  static constexpr std::uint32_t kInHistory = 0x80000000;  // The place there.
  static constexpr std::uint32_t kNobody = 0xc0000000;

  void Remember(const BlockKey& key, MissReason reason, EntryIndex entry);
  EntryIndex TakeFree();
  void PutFree(EntryIndex entry);

  BlockIndex index_;
  BlockHistory history_;
  HugeArray<std::uint32_t> owners_;  // By number.
  // Free numbers are a list; those from never_seen_ on were never in it.
  static constexpr std::uint32_t kNoFree = ~kKindMask;
  std::uint32_t first_free_ = kNoFree;
  std::uint32_t never_seen_ = 0;
  std::uint32_t free_count_;
  std::uint64_t departures_ = 0;
};

}  // namespace kvferry::engine
