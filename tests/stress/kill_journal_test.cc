// KillJournal: what was told before the death of its writer is what the model of the other learns.
#include "stress/kill_journal.h"

#include <memory>

#include <gtest/gtest.h>

namespace kvferry::stress {
namespace {

TEST(KillJournalTest, ReplaysEachKindOfStep) {
  const auto journal = std::make_unique<KillJournal>();
  using Kind = KillStep::Kind;
  for (const KillStep& step :
       {KillStep{Kind::kBeginPut, 0, 0}, KillStep{Kind::kEndPut, 0, 0},
        KillStep{Kind::kBeginErase, 0, 0}, KillStep{Kind::kEndErase, 0, 0},
        KillStep{Kind::kBeginErase, 1, 0}, KillStep{Kind::kGiveUpErase, 1, 0},
        KillStep{Kind::kDisturb, 2, 0}, KillStep{Kind::kEndPersist, 2, 1},
        KillStep{Kind::kEndPersist, 3, 1}, KillStep{Kind::kEraseNamespace, 1, 0}}) {
    ASSERT_TRUE(journal->Append(step));
  }
  BlockModel model(2, 4);

  journal->Replay(model);

  EXPECT_EQ(model.VersionOf(0), 1U);
  EXPECT_EQ(model.VersionOf(1), 0U);
  EXPECT_TRUE(model.IsPersisted(2));
  EXPECT_FALSE(model.IsPersisted(3));
  EXPECT_EQ(model.VersionOf(4), 1U);
}

TEST(KillJournalTest, ItsEndIsTold) {
  const auto journal = std::make_unique<KillJournal>();
  for (std::size_t i = 0; i < KillJournal::kStepsMax; ++i) {
    ASSERT_TRUE(journal->Append({}));
  }

  EXPECT_FALSE(journal->Append({}));
  EXPECT_EQ(journal->step_count(), KillJournal::kStepsMax);
}

TEST(KillJournalTest, KeepsTheFirstViolation) {
  const auto journal = std::make_unique<KillJournal>();

  journal->NoteViolation("first");
  journal->NoteViolation(std::string(10'000, 'x'));

  EXPECT_EQ(journal->violation(), "first");
  EXPECT_EQ(journal->violations, 2U);
}

}  // namespace
}  // namespace kvferry::stress
