// MemoryFiles: what a process sees, what a kill leaves, and what a power cut leaves.
#include "stress/memory_files.h"

#include <set>

#include <gtest/gtest.h>

namespace kvferry::stress {
namespace {

std::string Text(const MemoryFiles& files, const std::string& name) {
  const auto file = files.Find(name);
  return file ? files.Read(*file, 0, 10'000) : "no file";
}

TEST(MemoryFilesTest, AKillLeavesEverything) {
  MemoryFiles files;
  files.Append(files.Create("a"), "one");
  files.Rename("a", "b");

  files.LoseNow();
  files.Append(*files.Find("b"), " and two");
  files.Keep();

  EXPECT_EQ(Text(files, "a"), "no file");
  EXPECT_EQ(Text(files, "b"), "one");
}

TEST(MemoryFilesTest, WhatIsSyncedSurvivesAPowerCut) {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    MemoryFiles files;
    const auto file = files.Create("a");
    files.SyncNames();
    files.Append(file, std::string(700, 'x'));
    files.Sync(file);
    files.Append(file, std::string(2'000, 'y'));

    files.LoseNow();
    files.Cut(random);

    ASSERT_GE(Text(files, "a").size(), 700U);
    EXPECT_EQ(Text(files, "a").substr(0, 700), std::string(700, 'x'));
  }
}

// A cut that always left the same would test one case many times.
TEST(MemoryFilesTest, WhatIsNotSyncedSurvivesByChance) {
  Random random(1);
  std::set<std::string> left;
  for (int round = 0; round < 50; ++round) {
    MemoryFiles files;
    files.SyncNames();
    files.Append(files.Create("a"), std::string(1'024, 'y'));

    files.LoseNow();
    files.Cut(random);

    left.insert(Text(files, "a"));
  }

  EXPECT_TRUE(left.contains("no file"));
  EXPECT_GT(left.size(), 10U);
}

TEST(MemoryFilesTest, NamesChangeInTheirOrder) {
  Random random(1);
  std::set<std::string> seen;
  for (int round = 0; round < 100; ++round) {
    MemoryFiles files;
    const auto file = files.Create("old");
    files.Append(file, "old");
    files.Sync(file);
    files.SyncNames();
    const auto other = files.Create("new");
    files.Append(other, "new");
    files.Sync(other);
    files.Rename("new", "old");

    files.LoseNow();
    files.Cut(random);

    seen.insert(Text(files, "old") + ", " + Text(files, "new"));
  }

  EXPECT_EQ(seen, (std::set<std::string>{"old, no file", "old, new", "new, no file"}));
}

TEST(MemoryFilesTest, ThePowerGoesWithTheChangeThatWasNamed) {
  MemoryFiles files;
  const auto file = files.Create("a");
  files.Append(file, "1");
  files.LoseAt(files.change_count() + 1);

  files.Append(file, "2");
  EXPECT_FALSE(files.is_lost());
  files.Append(file, "3");
  EXPECT_TRUE(files.is_lost());
  EXPECT_EQ(Text(files, "a"), "123");
  files.Keep();

  EXPECT_EQ(Text(files, "a"), "12");
}

}  // namespace
}  // namespace kvferry::stress
