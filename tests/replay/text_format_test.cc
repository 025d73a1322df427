// Numbers and tables as people read them.
#include "replay/text_format.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace kvferry::replay {
namespace {

TEST(TextFormatTest, CountsHaveThousandsSeparators) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1'000), "1,000");
  EXPECT_EQ(FormatCount(545'809'543), "545,809,543");
  EXPECT_EQ(FormatCount(std::numeric_limits<std::uint64_t>::max()), "18,446,744,073,709,551,615");
}

TEST(TextFormatTest, CountedThingsHaveASingular) {
  EXPECT_EQ(FormatCounted(1, "block", "blocks"), "1 block");
  EXPECT_EQ(FormatCounted(0, "block", "blocks"), "0 blocks");
  EXPECT_EQ(FormatCounted(1'000, "block", "blocks"), "1,000 blocks");
}

TEST(TextFormatTest, DurationsChangeTheirUnitAtTwoOfTheNext) {
  EXPECT_EQ(FormatDuration(0), "0.0 s");
  EXPECT_EQ(FormatDuration(114'000), "114.0 s");
  EXPECT_EQ(FormatDuration(120'000), "2.0 min");
  EXPECT_EQ(FormatDuration(4'245'000), "70.8 min");
  EXPECT_EQ(FormatDuration(31'259'000), "8.7 h");
  EXPECT_EQ(FormatDuration(432'000'000), "120.0 h");
  EXPECT_EQ(FormatDuration(864'000'000), "10.0 d");
}

TEST(TextFormatTest, PercentHasTwoDecimals) {
  EXPECT_EQ(FormatPercent(0.36642), "36.64%");
  EXPECT_EQ(FormatPercent(1), "100.00%");
}

TEST(TextTableTest, AlignsNamesLeftAndNumbersRight) {
  TextTable table(2);
  table.AddRow({"policy", "hits"});
  table.AddHeading("");
  table.AddHeading("a heading that is wider than the columns");
  table.AddRow({"lru", "1,000"});
  table.AddRow({"fifo"});

  EXPECT_EQ(table.ToString(),
            "  policy   hits\n"
            "  -------------\n"
            "  a heading that is wider than the columns\n"
            "  lru     1,000\n"
            "  fifo\n");
}

TEST(TextTableTest, ALetterOfTwoBytesTakesOneColumn) {
  TextTable table(0);
  table.AddRow({"\xc3\xa9t\xc3\xa9", "1"});
  table.AddRow({"fifo", "2"});

  EXPECT_EQ(table.ToString(), "\xc3\xa9t\xc3\xa9   1\nfifo  2\n");
}

TEST(WrapTextTest, BreaksAtBlanksAndIndentsWhatFollows) {
  EXPECT_EQ(WrapText("one two three four", 2, 10), "one two\n  three\n  four");
  EXPECT_EQ(WrapText("unbreakable-word next", 2, 10), "unbreakable-word\n  next");
  EXPECT_EQ(WrapText("", 2, 10), "");
}

}  // namespace
}  // namespace kvferry::replay
