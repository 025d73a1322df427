// Whose the policy's numbers are, from a loan to the day the policy forgets them.
#include "engine/block_book.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

using testing::KeyOf;

// Forgets what it is told to, and nothing else.
class ForgetfulPolicy final : public EvictionPolicy {
 public:
  void OnRequest(const Access& /*access*/,
                 std::span<const EntryIndex> /*path*/,
                 std::uint32_t /*leading_resident*/) override {}
  void OnHit(std::span<const EntryIndex> /*run*/) override {}
  bool Admit(EntryIndex /*entry*/) override { return true; }
  void OnInsert(EntryIndex /*entry*/, EntryIndex /*parent*/) override {}
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> /*is_held*/) override { return kNoEntry; }
  void OnRemove(EntryIndex /*entry*/, RemoveReason /*reason*/) override {}
  std::size_t Forget(std::span<EntryIndex> freed) override {
    const std::size_t count = std::min(freed.size(), forgotten.size());
    std::copy_n(forgotten.end() - static_cast<std::ptrdiff_t>(count), count, freed.begin());
    forgotten.resize(forgotten.size() - count);
    return count;
  }

  std::vector<EntryIndex> forgotten;
};

BlockRecord RecordOf(std::uint64_t seed) {
  BlockRecord record;
  record.key = KeyOf(seed);
  return record;
}

class BlockBookTest : public ::testing::Test {
 protected:
  void TearDown() override { book_.CheckInvariants(); }

  RecordIndex Store(std::uint64_t seed) {
    const BlockBook::Loan loan = book_.LendFor(KeyOf(seed));
    EXPECT_NE(loan.entry, kNoEntry);
    return book_.AddRecord(RecordOf(seed), loan);
  }
  // Numbers that nobody has; ends with all of them lent.
  std::size_t DrainFree() {
    std::size_t count = 0;
    while (book_.LendFor(KeyOf(1'000 + count)).entry != kNoEntry) {
      ++count;
    }
    return count;
  }

  BlockBook book_{{.records_max = 4, .entries_max = 6, .history_max = 60}};
  ForgetfulPolicy policy_;
};

TEST_F(BlockBookTest, ANumberBelongsToItsRecord) {
  const RecordIndex first = Store(1);
  const RecordIndex second = Store(2);

  EXPECT_NE(book_.index()[first].entry, book_.index()[second].entry);
  EXPECT_EQ(book_.RecordOf(book_.index()[first].entry), first);
  EXPECT_EQ(book_.RecordOf(book_.index()[second].entry), second);
  EXPECT_EQ(book_.index().Find(KeyOf(2)), second);
}

// A policy that meets a block again under another number has forgotten all about it.
TEST_F(BlockBookTest, ADepartedBlockComesBackUnderItsNumber) {
  const RecordIndex record = Store(1);
  const EntryIndex entry = book_.index()[record].entry;
  book_.Depart(record, MissReason::kEvicted);
  book_.ReleaseIfUnused(record);
  EXPECT_FALSE(book_.index().is_used(record));
  EXPECT_EQ(book_.RecordOf(entry), kNoRecord);
  EXPECT_EQ(book_.history().ReasonOf(KeyOf(1)), MissReason::kEvicted);

  const BlockBook::Loan loan = book_.LendFor(KeyOf(1));

  EXPECT_EQ(loan.entry, entry);
  EXPECT_FALSE(loan.is_fresh);
  EXPECT_EQ(book_.history().ReasonOf(KeyOf(1)), MissReason::kNeverStored);
}

TEST_F(BlockBookTest, ALoanThatThePolicyNeverHeardOfGoesBackToTheFreeOnes) {
  for (int round = 0; round < 20; ++round) {
    const BlockBook::Loan loan = book_.LendFor(KeyOf(1));
    ASSERT_TRUE(loan.is_fresh);
    book_.EndLoan(KeyOf(1), loan, MissReason::kOverQuota, false);
    ASSERT_EQ(book_.history().ReasonOf(KeyOf(1)), MissReason::kOverQuota);
  }
  EXPECT_EQ(DrainFree(), 6U);
}

// Given to another block, it would be taken for the one that was refused.
TEST_F(BlockBookTest, ALoanThatThePolicyHeardOfStaysWithTheBlock) {
  const BlockBook::Loan refused = book_.LendFor(KeyOf(1));
  book_.EndLoan(KeyOf(1), refused, MissReason::kNotAdmitted, true);

  const BlockBook::Loan again = book_.LendFor(KeyOf(1));

  EXPECT_EQ(again.entry, refused.entry);
  EXPECT_FALSE(again.is_fresh);
}

TEST_F(BlockBookTest, TakesBackWhatThePolicyHasForgottenWhosesoeverItIs) {
  const RecordIndex stays = Store(1);
  const RecordIndex goes = Store(2);
  const EntryIndex first = book_.index()[stays].entry;
  const EntryIndex second = book_.index()[goes].entry;
  book_.Depart(goes, MissReason::kErased);
  book_.ReleaseIfUnused(goes);
  policy_.forgotten = {first, second};

  book_.TakeBack(policy_);

  EXPECT_EQ(book_.index()[stays].entry, kNoEntry);
  EXPECT_EQ(book_.history().ReasonOf(KeyOf(2)), MissReason::kErased);
  EXPECT_TRUE(book_.LendFor(KeyOf(2)).is_fresh);
  EXPECT_EQ(DrainFree(), 5U);
}

TEST_F(BlockBookTest, LendsNothingWhenAllNumbersAreInUse) {
  EXPECT_EQ(DrainFree(), 6U);
  const BlockBook::Loan loan = book_.LendFor(KeyOf(1));
  EXPECT_EQ(loan.entry, kNoEntry);
  EXPECT_FALSE(loan.is_fresh);
}

TEST_F(BlockBookTest, ARecordWithoutANumberBorrowsOne) {
  const RecordIndex record = Store(1);
  const EntryIndex entry = book_.index()[record].entry;
  EXPECT_EQ(book_.LendFor(record).entry, entry);
  EXPECT_FALSE(book_.LendFor(record).is_fresh);
  policy_.forgotten = {entry};
  book_.TakeBack(policy_);

  const BlockBook::Loan loan = book_.LendFor(record);
  EXPECT_TRUE(loan.is_fresh);
  book_.GiveEntry(record, loan);

  EXPECT_EQ(book_.RecordOf(loan.entry), record);
}

// Released too early, the record would be given to another block while this one is still read.
TEST_F(BlockBookTest, KeepsADepartedRecordThatIsInUse) {
  const RecordIndex record = Store(1);
  book_.index().use(record).readers = 1;
  book_.ReleaseIfUnused(record);
  EXPECT_TRUE(book_.index().is_used(record));  // It can still be found.
  book_.Depart(record, MissReason::kErased);
  book_.ReleaseIfUnused(record);
  EXPECT_TRUE(book_.index().is_used(record));

  book_.index().use(record).readers = 0;
  book_.index().Update(record, [](BlockRecord& block) { block.nvme_state = CopyState::kDraining; });
  book_.ReleaseIfUnused(record);
  EXPECT_TRUE(book_.index().is_used(record));

  book_.index().Update(record, [](BlockRecord& block) { block.nvme_state = CopyState::kAbsent; });
  book_.ReleaseIfUnused(record);
  EXPECT_FALSE(book_.index().is_used(record));
}

}  // namespace
}  // namespace kvferry::engine
