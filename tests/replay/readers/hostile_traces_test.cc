// Ten hostile traces: each gives the right error or its documented handling, none a crash.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/replay/readers/trace_files.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

using testing::Read;
using testing::TraceFolder;
using testing::Zstd;

std::string Line(int time_ms, const std::string& ids, int tokens = 128) {
  return "{\"timestamp\":" + std::to_string(time_ms) +
         ",\"input_length\":" + std::to_string(tokens) + ",\"output_length\":1,\"hash_ids\":[" +
         ids + "]}\n";
}

const std::string kGood = Line(0, "1,2") + Line(1, "1,3");

class HostileTraceTest : public ::testing::Test {
 protected:
  Result<Trace> ReadText(const std::string& text, std::uint64_t skip_max = 0) {
    ReadOptions options;
    options.paths = {folder_.Write("hostile.jsonl", text)};
    options.block_tokens = 64;
    options.skip_bad_lines_max = skip_max;
    return Read(options);
  }
  // The text is refused with all of `parts` in the message, and read without its bad lines where
  // they may be skipped.
  void ExpectBadLine(const std::string& text, const std::vector<std::string>& parts) {
    const Result<Trace> trace = ReadText(text);
    EXPECT_STATUS(trace, StatusCode::kDataLoss);
    for (const std::string& part : parts) {
      EXPECT_NE(trace.status().message().find(part), std::string_view::npos)
          << part << " is not in: " << trace.status().message();
    }
    EXPECT_NE(trace.status().message().find("hostile.jsonl"), std::string_view::npos);
    const Result<Trace> skipping = ReadText(text, 1);
    ASSERT_OK(skipping);
    EXPECT_EQ(skipping->origin().skipped_lines, 1U);
    EXPECT_EQ(skipping->requests().size(), 2U);
  }

  TraceFolder folder_;
};

TEST_F(HostileTraceTest, TruncatedZst) {
  std::string text;
  for (int i = 0; i < 2'000; ++i) {
    text += Line(i, std::to_string(i * 7'919) + "," + std::to_string(i));
  }
  const std::string whole = Zstd(text);

  const Result<Trace> trace = ReadText(whole.substr(0, whole.size() / 2), 1'000);

  EXPECT_STATUS(trace, StatusCode::kDataLoss);
  EXPECT_NE(trace.status().message().find("cut off at byte " + std::to_string(whole.size() / 2)),
            std::string_view::npos)
      << trace.status().message();
  EXPECT_NE(trace.status().message().find("nothing of it is used"), std::string_view::npos);
}

TEST_F(HostileTraceTest, NulBytes) {
  std::string line = Line(1, "1,9");
  line[5] = '\0';
  ExpectBadLine(kGood + line, {"line 3", "byte 6 of it is NUL"});
  ExpectBadLine(kGood + std::string(100, '\0') + "\n", {"line 3", "byte 1 of it is NUL"});
}

TEST_F(HostileTraceTest, NegativeLengths) {
  ExpectBadLine(kGood + Line(1, "1,2", -128), {"line 3", "\"input_length\" is negative"});
  ExpectBadLine(kGood + Line(1, "-1,2"), {"line 3", "\"hash_ids[0]\" is negative"});
}

TEST_F(HostileTraceTest, IdsOf2To63) {
  const Result<Trace> trace =
      ReadText(Line(0, "9223372036854775808,18446744073709551615") +
               Line(1, "9223372036854775808,9223372036854775807") + Line(2, "0,1"));
  ASSERT_OK(trace);
  EXPECT_EQ(trace->distinct_blocks(), 5U);
  EXPECT_TRUE(trace->is_chained());

  ExpectBadLine(kGood + Line(1, "1,18446744073709551616"),
                {"line 3", "\"hash_ids[1]\" does not fit 64 bits"});
  ExpectBadLine(kGood + Line(1, "1," + std::string(400, '9')), {"does not fit 64 bits"});
}

TEST_F(HostileTraceTest, UnsortedTimes) {
  const Result<Trace> trace = ReadText(Line(50, "1,2") + Line(20, "1,3") + Line(30, "1,4") +
                                       Line(-5, "1,5") + Line(60, "1,6"));

  ASSERT_OK(trace);
  ASSERT_EQ(trace->origin().notes.size(), 1U);
  EXPECT_EQ(trace->origin().notes[0].substr(0, 24), "2 requests are earlier t");
  std::vector<std::int64_t> times;
  for (const TraceRequest& request : trace->requests()) {
    times.push_back(request.time_ms);
  }
  EXPECT_EQ(times, (std::vector<std::int64_t>{50, 20, 30, -5, 60}));
}

TEST_F(HostileTraceTest, EmptyFile) {
  for (const std::string& text :
       {std::string(), std::string("\n \n\r\n"), Zstd(""), std::string("\xef\xbb\xbf")}) {
    const Result<Trace> trace = ReadText(text);
    EXPECT_STATUS(trace, StatusCode::kDataLoss);
    EXPECT_NE(trace.status().message().find("no request"), std::string_view::npos)
        << trace.status().message();
  }
}

// Also where nothing is left of it, and nothing tells a block size.
TEST_F(HostileTraceTest, OnlyBadLines) {
  ReadOptions options;
  options.paths = {folder_.Write("hostile.jsonl", Line(0, "1,-2") + Line(0, "1,-2"))};
  options.skip_bad_lines_max = 2;

  const Result<Trace> trace = Read(options);

  EXPECT_STATUS(trace, StatusCode::kDataLoss);
  EXPECT_NE(trace.status().message().find("no request in it beside skipped lines"),
            std::string_view::npos)
      << trace.status().message();
}

TEST_F(HostileTraceTest, OneLineOf100Megabytes) {
  constexpr std::size_t kIds = 12'500'000;
  std::string line = Line(1, "");
  line.resize(line.find(']'));
  line.reserve(kIds * 8 + 100);
  for (std::size_t i = 0; i < kIds; ++i) {
    line += "1234567,";
  }
  line += "1]}\n";
  ExpectBadLine(Line(0, "1,2") + line + Line(1, "1,3"), {"line 2", "longer than 16 MiB"});

  const Result<Trace> letters = ReadText(std::string(std::size_t{100} << 20, 'a'));
  EXPECT_STATUS(letters, StatusCode::kDataLoss);
  EXPECT_NE(letters.status().message().find("no known format"), std::string_view::npos);
}

TEST_F(HostileTraceTest, WrongFormat) {
  const Result<Trace> html = ReadText("<html><body>404 not found</body></html>\n");
  EXPECT_STATUS(html, StatusCode::kDataLoss);
  for (const char* part : {"begins with \"<html><body>404 not", "mooncake", "sessions", "ragpulse",
                           "azure", "bailian", "aiperf", "--format"}) {
    EXPECT_NE(html.status().message().find(part), std::string_view::npos) << part;
  }

  ReadOptions options;
  options.paths = {folder_.Write("hostile.jsonl", kGood)};
  for (const char* format : {"azure", "bailian", "aiperf", "sessions", "ragpulse"}) {
    options.format = format;
    EXPECT_FALSE(Read(options).has_value()) << format;
  }
  std::string noise;
  for (unsigned i = 0; i < 10'000; ++i) {
    noise += static_cast<char>(i * 2'654'435'761U >> 13U);
  }
  EXPECT_STATUS(ReadText(noise), StatusCode::kDataLoss);
}

TEST_F(HostileTraceTest, MissingField) {
  const std::string line = Line(1, "1,2");
  for (const char* name : {"timestamp", "input_length", "output_length", "hash_ids"}) {
    std::string renamed = line;
    renamed.replace(renamed.find(name), 1, "X");
    ExpectBadLine(kGood + renamed, {"line 3", "\"" + std::string(name) + "\" is missing"});
  }
  ExpectBadLine(kGood + "{}\n", {"line 3", "\"timestamp\" is missing"});
  ExpectBadLine(kGood + "{\"timestamp\":\"5\"}\n", {"\"timestamp\" is a string"});
  ExpectBadLine(kGood + "null\n", {"line 3"});
  ExpectBadLine(kGood + "{\"timestamp\":1,\"input_len\n", {"line 3", "is no valid JSON"});
}

TEST_F(HostileTraceTest, IdsThatContradictPrefixChaining) {
  const Result<Trace> trace = ReadText(Line(0, "1,2") + Line(1, "2,1") + Line(2, "3,3"));

  ASSERT_OK(trace);
  EXPECT_FALSE(trace->is_chained());
  EXPECT_EQ(trace->distinct_blocks(), 3U);
  ASSERT_EQ(trace->origin().notes.size(), 1U);
  EXPECT_NE(trace->origin().notes[0].find("not prefix-chained (request 2"), std::string::npos)
      << trace->origin().notes[0];
}

// Rows whose count of ids does not fit their length, with the block size given and told.
TEST_F(HostileTraceTest, IdsThatDoNotFitTheLength) {
  ExpectBadLine(kGood + Line(1, "1,2,3,4"), {"line 3", "has 4 ids", "128"});
  ExpectBadLine(kGood + Line(1, ""), {"line 3", "has 0 ids"});
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += Line(
        i,
        std::to_string(3 * i) + "," + std::to_string(3 * i + 1) + "," + std::to_string(3 * i + 2),
        1'300 + i);
  }
  for (const std::string& bad : {Line(0, "1", 1'300) + text, text + Line(500, "1,2,3,4,5", 700)}) {
    ReadOptions options;
    options.paths = {folder_.Write("hostile.jsonl", bad)};
    EXPECT_STATUS(Read(options), StatusCode::kDataLoss);
    options.skip_bad_lines_max = 1;
    const Result<Trace> trace = Read(options);
    ASSERT_OK(trace);
    EXPECT_EQ(trace->origin().block_tokens, 512U);
    EXPECT_EQ(trace->requests().size(), 100U);
    EXPECT_EQ(trace->origin().skipped_lines, 1U);
  }
}

}  // namespace
}  // namespace kvferry::replay
