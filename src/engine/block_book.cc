// How records, departed blocks and the policy's numbers change hands.
#include "engine/block_book.h"

#include <array>

#include "base/assert.h"

namespace kvferry::engine {
namespace {

std::uint32_t Number(EntryIndex entry) {
  return static_cast<std::uint32_t>(entry);
}

}  // namespace

BlockBook::BlockBook(const Options& options)
    : index_(options.records_max),
      history_(options.history_max),
      owners_(options.entries_max, kZeroBytes),
      free_count_(options.entries_max) {
  KVFERRY_CHECK(options.entries_max < BlockHistory::kEntriesMax);
  KVFERRY_CHECK(options.records_max <= ~kKindMask);
}

EntryIndex BlockBook::TakeFree() {
  if (free_count_ == 0) {
    return kNoEntry;
  }
  std::uint32_t number = never_seen_;
  if (first_free_ == kNoFree) {
    ++never_seen_;
  } else {
    number = first_free_;
    KVFERRY_CHECK((owners_[number] & kKindMask) == kFree);
    first_free_ = owners_[number] & ~kKindMask;
  }
  --free_count_;
  owners_[number] = kNobody;
  return EntryIndex{number};
}

void BlockBook::PutFree(EntryIndex entry) {
  owners_[Number(entry)] = kFree | first_free_;
  first_free_ = Number(entry);
  ++free_count_;
}

BlockBook::Loan BlockBook::LendFor(const BlockKey& key) {
  Loan loan{.entry = history_.Take(key)};
  if (loan.entry != kNoEntry) {
    owners_[Number(loan.entry)] = kNobody;
    return loan;
  }
  loan.entry = TakeFree();
  loan.is_fresh = loan.entry != kNoEntry;
  return loan;
}

BlockBook::Loan BlockBook::LendFor(RecordIndex record) {
  Loan loan;
  loan.entry = index_[record].entry;
  if (loan.entry == kNoEntry) {
    loan.entry = TakeFree();
    loan.is_fresh = loan.entry != kNoEntry;
  }
  return loan;
}

void BlockBook::EndLoan(const BlockKey& key, const Loan& loan, MissReason reason, bool was_told) {
  EntryIndex entry = loan.entry;
  if (entry != kNoEntry && loan.is_fresh && !was_told) {
    PutFree(entry);
    entry = kNoEntry;
  }
  if (reason != MissReason::kNone) {
    Remember(key, reason, entry);
  }
}

RecordIndex BlockBook::AddRecord(const BlockRecord& fresh, const Loan& loan) {
  const RecordIndex record = index_.Add(fresh);
  if (record != kNoRecord) {
    GiveEntry(record, loan);
  }
  return record;
}

RecordIndex BlockBook::AddFound(const BlockRecord& fresh) {
  const MissReason reason = history_.ReasonOf(fresh.key);
  Loan loan;
  if (reason != MissReason::kNeverStored) {
    loan.entry = history_.Take(fresh.key);  // By which the policy may remember it.
  }
  const RecordIndex record = index_.Add(fresh);
  if (loan.entry != kNoEntry && record != kNoRecord) {
    GiveEntry(record, loan);
  } else if (record == kNoRecord && reason != MissReason::kNeverStored) {
    Remember(fresh.key, reason, loan.entry);
  }
  return record;
}

void BlockBook::GiveEntry(RecordIndex record, const Loan& loan) {
  index_.PrivatePart(record).entry = loan.entry;
  owners_[Number(loan.entry)] = NumberOf(record);
}

void BlockBook::Remember(const BlockKey& key, MissReason reason, EntryIndex entry) {
  const BlockHistory::Added added = history_.Add(key, reason, entry);
  if (added.forgotten != kNoEntry) {
    owners_[Number(added.forgotten)] = kNobody;
  }
  if (entry != kNoEntry) {
    owners_[Number(entry)] = kInHistory | added.place;
  }
}

void BlockBook::Depart(RecordIndex record, MissReason reason) {
  const BlockRecord& gone = index_[record];
  KVFERRY_CHECK(gone.is_indexed);
  ++departures_;
  index_.Unindex(record);
  Remember(gone.key, reason, gone.entry);
  index_.PrivatePart(record).entry = kNoEntry;
}

void BlockBook::ReleaseIfUnused(RecordIndex record) {
  const BlockRecord& gone = index_[record];
  if (!gone.is_indexed && gone.host_state == CopyState::kAbsent &&
      gone.nvme_state == CopyState::kAbsent && index_.use(record).readers == 0 &&
      index_.use(record).handles == 0) {
    index_.Release(record);
  }
}

RecordIndex BlockBook::RecordOf(EntryIndex entry) const {
  const std::uint32_t owner = owners_[Number(entry)];
  return (owner & kKindMask) == kRecord ? RecordIndex{owner} : kNoRecord;
}

void BlockBook::TakeBack(EvictionPolicy& policy) {
  std::array<EntryIndex, 16> freed{};
  for (std::size_t count = policy.Forget(freed); count > 0; count = policy.Forget(freed)) {
    for (const EntryIndex entry : std::span(freed).first(count)) {
      const std::uint32_t owner = owners_[Number(entry)];
      KVFERRY_CHECK((owner & kKindMask) != kFree);
      if ((owner & kKindMask) == kRecord) {
        index_.PrivatePart(RecordIndex{owner}).entry = kNoEntry;
      } else if ((owner & kKindMask) == kInHistory) {
        history_.DropEntry(owner & ~kKindMask);
      }
      PutFree(entry);
    }
  }
}

void BlockBook::CheckInvariants() const {
  auto free_count = static_cast<std::uint32_t>(owners_.size() - never_seen_);
  for (std::uint32_t number = 0; number < never_seen_; ++number) {
    const std::uint32_t owner = owners_[number];
    free_count += (owner & kKindMask) == kFree ? 1 : 0;
    if ((owner & kKindMask) == kRecord) {
      KVFERRY_CHECK(index_.is_used(RecordIndex{owner}));
      KVFERRY_CHECK(index_[RecordIndex{owner}].entry == EntryIndex{number});
    }
  }
  KVFERRY_CHECK(free_count == free_count_);
  std::uint32_t used = 0;
  index_.ForEach([&](RecordIndex record) {
    ++used;
    const BlockRecord& block = index_[record];
    KVFERRY_CHECK(!block.is_indexed || index_.Find(block.key) == record);
    KVFERRY_CHECK(block.entry == kNoEntry || RecordOf(block.entry) == record);
  });
  KVFERRY_CHECK(used == index_.records_used());
}

}  // namespace kvferry::engine
