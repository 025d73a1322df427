// Tests of the line window: endings, oddities, lines across windows and lines that are too long.
#include "replay/readers/line_reader.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

// Hands out the text in pieces of at most `step` bytes.
class SteppedStream final : public ByteStream {
 public:
  SteppedStream(std::string_view text, std::size_t step) : text_(text), step_(step) {}
  Result<std::size_t> Read(std::span<char> target) override {
    const std::size_t count = std::min({target.size(), text_.size(), step_});
    std::copy_n(text_.data(), count, target.data());
    text_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view text_;
  std::size_t step_;
};

using Lines = std::vector<std::pair<std::uint64_t, std::string>>;

Lines ReadAll(std::string_view text, std::size_t step = 1 << 20) {
  SteppedStream stream(text, step);
  LineReader reader(stream);
  Lines lines;
  TextLine line;
  while (true) {
    const Result<bool> next = reader.Next(line);
    EXPECT_OK(next);
    if (!next.has_value() || !*next) {
      return lines;
    }
    lines.emplace_back(line.number, line.is_too_long ? "(too long)" : std::string(line.text));
  }
}

// Line numbers are what an error message names, so blank lines must count.
TEST(LineReaderTest, NumbersLinesAndPassesOverBlankOnes) {
  EXPECT_EQ(ReadAll("a\n\n  \t\nb\r\n\r\nc"), (Lines{{1, "a"}, {4, "b"}, {6, "c"}}));
}

// A byte order mark is no content, but only at the very beginning.
TEST(LineReaderTest, DropsAByteOrderMarkOnlyBeforeTheFirstLine) {
  EXPECT_EQ(ReadAll("\xef\xbb\xbf"
                    "a\n\xef\xbb\xbf"
                    "b"),
            (Lines{{1, "a"},
                   {2,
                    "\xef\xbb\xbf"
                    "b"}}));
}

// The end of the window must not show in the lines.
TEST(LineReaderTest, GivesTheSameLinesForAnyPieces) {
  constexpr std::uint64_t kSeed = 11;
  RecordProperty("seed", std::to_string(kSeed));
  Random random(kSeed);
  std::string text;
  Lines wanted;
  for (std::uint64_t number = 1; number <= 400; ++number) {
    const std::string line(random.Below(3000) + 1, static_cast<char>('a' + random.Below(26)));
    text += line + (random.Chance(0.5) ? "\r\n" : "\n");
    wanted.emplace_back(number, line);
  }

  for (const std::size_t step : {std::size_t{997}, std::size_t{65536}, std::size_t{1} << 20}) {
    EXPECT_EQ(ReadAll(text, step), wanted) << "pieces of " << step << ", seed " << kSeed;
  }
}

// A line of any length is one bad line; what follows is read as if nothing had been.
TEST(LineReaderTest, PassesOverALineThatIsTooLong) {
  const std::string longest(kLineBytesMax, 'x');
  const std::string text = "a\n" + longest + "\n" + longest + "y\nb\n" + longest + longest;

  const Lines lines = ReadAll(text);

  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[1].second, longest);
  EXPECT_EQ(lines[2], (std::pair<std::uint64_t, std::string>(3, "(too long)")));
  EXPECT_EQ(lines[3], (std::pair<std::uint64_t, std::string>(4, "b")));
  EXPECT_EQ(lines[4], (std::pair<std::uint64_t, std::string>(5, "(too long)")));
}

// Scanners read ahead: without the padding they would read beyond the buffer (ASan sees it).
TEST(LineReaderTest, LeavesPaddingWithoutADigitBehindEachLine) {
  const std::string text(2 * 256 * 1024, '7');
  SteppedStream stream(text, text.size());
  LineReader reader(stream);
  TextLine line;
  const Result<bool> next = reader.Next(line);
  ASSERT_OK(next);

  const char* const end = line.text.data() + line.text.size();
  EXPECT_FALSE(*end >= '0' && *end <= '9');
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kLinePadding; ++i) {
    sum += static_cast<unsigned char>(end[i]);
  }
  EXPECT_GT(sum, 0U);
}

}  // namespace
}  // namespace kvferry::replay
