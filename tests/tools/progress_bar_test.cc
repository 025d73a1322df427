// The text of the progress bar.
#include "tools/kvferry/progress_bar.h"

#include <gtest/gtest.h>

namespace kvferry::tool {
namespace {

// Share, rate and time left follow from the count; a wrong unit misleads more than no bar.
TEST(ProgressBarTest, SaysShareRateAndTimeLeft) {
  const ProgressOptions options{.label = "replaying", .unit = "references", .total = 1'000'000};

  EXPECT_EQ(ProgressLine(options, 250'000, 5),
            "replaying  [#####...............] 25 %  50 k references/s  15 s left");
  EXPECT_EQ(ProgressLine(options, 1'000'000, 300),
            "replaying  [####################] 100 %  3.33 k references/s  0 s left");
}

// Standard input has no end to measure against.
TEST(ProgressBarTest, SaysHowMuchWhereTheTotalIsUnknown) {
  const ProgressOptions options{.label = "reading -", .unit = "B"};

  EXPECT_EQ(ProgressLine(options, 3 << 20, 2), "reading -  3.00 MiB  1.50 MiB/s");
}

// More than was announced (a file that grows) stays at 100 %.
TEST(ProgressBarTest, NeverPassesTheEnd) {
  const ProgressOptions options{.label = "reading", .unit = "B", .total = 1024};

  EXPECT_EQ(ProgressLine(options, 4096, 1),
            "reading  [####################] 100 %  4.00 KiB/s  0 s left");
}

// Nothing moves yet: no rate to divide by.
TEST(ProgressBarTest, StartsWithoutATimeLeft) {
  const ProgressOptions options{.label = "reading", .unit = "B", .total = 1024};

  EXPECT_EQ(ProgressLine(options, 0, 0), "reading  [....................] 0 %  0 B/s");
}

// The painter thread must end with the bar, also when the bar is gone at once.
TEST(ProgressBarTest, EndsAtOnceWhenTheWorkDoes) {
  for (int i = 0; i < 20; ++i) {
    ProgressBar bar({.label = "x", .unit = "B", .total = 1, .is_shown = true});
    bar.done().fetch_add(1);
  }
}

}  // namespace
}  // namespace kvferry::tool
