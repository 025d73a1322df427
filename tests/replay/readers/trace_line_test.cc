// Tests of line parsing: the direct scanner and simdjson must accept the same and say the same.
#include "replay/readers/trace_line.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "replay/readers/line_reader.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

std::string Shown(const Status& status, const TraceLine& line) {
  if (!status.ok()) {
    return "refused";
  }
  std::string text;
  for (std::size_t i = 0; i < line.values.size(); ++i) {
    text += line.is_string[i] ? "'" : "";
    text += std::string(line.values[i]) + "|";
  }
  text += line.has_ids ? "ids" : "no ids";
  for (const std::uint64_t id : line.ids) {
    text += " " + std::to_string(id);
  }
  return text;
}

// Both ways to read `text`, which must agree.
std::string Parsed(TraceLineParser& parser, std::string_view text) {
  const std::string padded = std::string(text) + "\n" + std::string(kLinePadding, '\0');
  const std::string_view view = std::string_view(padded).substr(0, text.size());
  TraceLine line;
  const Status status = parser.Parse(view, line);
  const std::string direct = Shown(status, line);
  const Status slow_status = parser.ParseSlowly(view, line);
  EXPECT_EQ(direct, Shown(slow_status, line)) << text << '\n' << slow_status.ToString();
  return status.ok() ? direct : std::string(status.message());
}

TEST(TraceLineParserTest, TakesWhatReadersUseAndPassesOverTheRest) {
  TraceLineParser parser;
  EXPECT_EQ(Parsed(parser, R"({"timestamp": 5, "input_length": 10, "hash_ids": [1, 2]})"),
            "5||10||||||ids 1 2");
  EXPECT_EQ(Parsed(parser, R"({"hash_ids":[],"session_id":"a\u0062","x":{"y":[true,null,"z"]}})"),
            "|||||'ab|||ids");
  EXPECT_EQ(Parsed(parser, R"({"session_id": null, "delay": 1.5e2})"), "|1.5e2|||||||no ids");
  EXPECT_EQ(Parsed(parser, "{}"), "||||||||no ids");
}

// Each is a line that a lenient reader would take for something else.
TEST(TraceLineParserTest, RefusesWhatIsNoJsonObjectOfTheRightTypes) {
  TraceLineParser parser;
  for (const char* text : {R"({"timestamp": 5)",
                           R"({"timestamp": 5})"
                           "}",
                           R"({"timestamp": 5,})",
                           R"({"timestamp": 5} {"timestamp": 6})",
                           R"({"timestamp": 05})",
                           R"({"timestamp": 5 "delay": 6})",
                           R"({"timestamp" 5})",
                           R"({timestamp: 5})",
                           R"({"x": tru})",
                           R"({"x": nul})",
                           R"({"x": 01})",
                           R"({"x": "\q"})",
                           R"({"x": [1,]})",
                           R"({"x": {"y" 1}})",
                           "{\"x\": \"\x01\"}",
                           "{\"x\": \"\xff\"}",
                           R"([1, 2])",
                           R"("text")",
                           R"(5)",
                           R"({"timestamp": 5, "timestamp": 6})",
                           R"({"hash_ids": [1], "hash_ids": [2]})"}) {
    const std::string padded = std::string(text) + "\n" + std::string(kLinePadding, '\0');
    TraceLine line;
    const Status status =
        parser.Parse(std::string_view(padded).substr(0, std::string_view(text).size()), line);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << text << '\n' << status.ToString();
    Parsed(parser, text);
  }
}

TEST(TraceLineParserTest, NamesTheFieldAndTheReason) {
  TraceLineParser parser;
  EXPECT_EQ(Parsed(parser, R"({"hash_ids": [1, -2]})"), "field \"hash_ids[1]\" is negative");
  EXPECT_EQ(Parsed(parser, R"({"hash_ids": [18446744073709551616]})"),
            "field \"hash_ids[0]\" does not fit 64 bits");
  EXPECT_EQ(Parsed(parser, R"({"hash_ids": [1.5]})"), "field \"hash_ids[0]\" is no whole number");
  EXPECT_EQ(Parsed(parser, R"({"hash_ids": 7})"), "field \"hash_ids\" is no list of integers");
  EXPECT_EQ(Parsed(parser, R"({"delay": 1, "delay": 1})"), "field \"delay\" stands twice");
  EXPECT_EQ(Parsed(parser, std::string("{\"a\":\0 1}", 9)), "byte 6 of it is NUL: this is no text");
}

// Random damage to good lines: whatever the direct scanner accepts, simdjson must accept alike.
TEST(TraceLineParserTest, AgreesWithSimdjsonOnDamagedLines) {
  constexpr std::uint64_t kSeed = 20261129;
  RecordProperty("seed", std::to_string(kSeed));
  Random random(kSeed);
  const std::vector<std::string> good = {
      R"({"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 2353]})",
      R"({"timestamp":0,"input_length":9,"hash_ids":[0,18446744073709551615],"session_id":"a-b"})",
      R"({"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "type": "text", "turn": 2})",
  };
  const std::string alphabet = "{}[]\",:0123456789-+.eE \\tfn\x01\xff";
  TraceLineParser parser;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good[random.Below(good.size())];
    const std::uint64_t edits = random.Between(1, 3);
    for (std::uint64_t edit = 0; edit < edits; ++edit) {
      const std::size_t at = random.Below(text.size());
      switch (random.Below(3)) {
        case 0:
          text[at] = alphabet[random.Below(alphabet.size())];
          break;
        case 1:
          text.erase(at, random.Between(1, 4));
          break;
        default:
          text.insert(at, 1, alphabet[random.Below(alphabet.size())]);
      }
      if (text.empty()) {
        text = "{";
      }
    }
    Parsed(parser, text);
    ASSERT_FALSE(HasFailure()) << "seed " << kSeed << ", round " << round;
  }
}

}  // namespace
}  // namespace kvferry::replay
