// Tests of the formats beside Mooncake, of telling them apart, and of telling the block size.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replay/readers/azure_reader.h"
#include "replay/readers/block_size.h"
#include "replay/readers/format.h"
#include "tests/replay/readers/trace_files.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

using testing::Content;
using testing::ContentOf;
using testing::Gzip;
using testing::Read;
using testing::Tar;
using testing::TraceFolder;
using testing::Zstd;

std::string Session(const std::string& id, const std::string& requests) {
  return "{\"id\":\"" + id +
         "\",\"models\":[\"m\"],\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":[" +
         requests + "]}";
}

std::string SessionRequest(const std::string& t, int in, const std::string& ids) {
  return "{\"t\":" + t + ",\"type\":\"n\",\"in\":" + std::to_string(in) +
         ",\"out\":5,\"hash_ids\":[" + ids + "],\"stop\":\"\"}";
}

const std::string kFirst =
    Session("a",
            SessionRequest("0.0", 128, "1,2") + ",{\"requests\":[" +
                SessionRequest("0.5", 70, "1") + "," + SessionRequest("9.25", 64, "9") +
                "],\"type\":\"subagent\",\"t\":2.0}," + SessionRequest("4.1239", 200, "1,2,3"));
const std::string kSecond = Session("b", SessionRequest("0", 128, "1,2"));

// Time and tokens of each request, in order.
std::vector<std::pair<std::int64_t, std::uint32_t>> Requests(const Trace& trace) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> requests;
  for (const TraceRequest& request : trace.requests()) {
    requests.emplace_back(request.time_ms, request.input_tokens);
  }
  return requests;
}

// Sub-agents run beside their session: their requests come in between, under a name of their own,
// over the same blocks.
TEST(SessionReaderTest, PutsSubAgentsInTimeOrderOverTheSessionsBlocks) {
  const TraceFolder folder;

  const Result<Trace> trace = Read(folder.Write("a.json", kFirst));

  ASSERT_OK(trace);
  EXPECT_EQ(Content(*trace),
            "64 tokens a block, 4 distinct, 7 references, 2 sessions, chained 1\n"
            "0 128 5 0: 0 1\n"
            "2500 70 5 1: 0\n"
            "4123 200 5 0: 0 1 2\n"
            "11250 64 5 1: 3\n");
}

// A session that was cut off, emptied or overwritten is a bad line, not a file of another kind.
TEST(SessionReaderTest, CountsBrokenFilesOfAFolderAsBadLines) {
  const std::string cut(kFirst.substr(0, 6));
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"b.json", ""}, {"b.json", "garbage"}, {"b", cut}, {"b.json.gz", Gzip(cut)}}) {
    const TraceFolder sessions;
    sessions.Write("a.json", kFirst);
    sessions.Write(name, text);
    ReadOptions options;
    options.paths = {sessions.path()};

    const Result<Trace> strict = Read(options);
    options.skip_bad_lines_max = 1;
    const Result<Trace> skipping = Read(options);

    EXPECT_STATUS(strict, StatusCode::kDataLoss);
    EXPECT_NE(strict.status().message().find(name + ": line 1"), std::string_view::npos)
        << strict.status().message();
    ASSERT_OK(skipping);
    EXPECT_EQ(skipping->origin().skipped_lines, 1U) << text;
  }
}

TEST(SessionReaderTest, PassesOverOtherFilesOfAFolderAndNamesThem) {
  const TraceFolder sessions;
  sessions.Write("a.json", kFirst);
  sessions.Write("LICENSE", "text");
  sessions.Write("metadata.json", "{\"sessions\": [1]}");
  sessions.Write("versions.json", "3");

  const Result<Trace> trace = Read(sessions.path());

  ASSERT_OK(trace);
  EXPECT_EQ(trace->origin().skipped_lines, 0U);
  EXPECT_NE(trace->origin().notes.back().find("LICENSE, metadata.json, versions.json"),
            std::string::npos)
      << trace->origin().notes.back();
}

TEST(SessionReaderTest, AFolderIsReadInAFormatOfFoldersOnly) {
  const TraceFolder sessions;
  sessions.Write("a.json", kFirst);
  ReadOptions options;
  options.paths = {sessions.path()};
  options.format = "mooncake";
  EXPECT_STATUS(Read(options), StatusCode::kInvalidArgument);
  options.format = "ragpulse";
  EXPECT_FALSE(Read(options).has_value());
  options.format = "sessions";
  EXPECT_OK(Read(options));
}

TEST(SessionReaderTest, ReadsFoldersAndArchivesAlike) {
  const TraceFolder folder;
  const TraceFolder sessions;
  sessions.Write("a.json", kFirst);
  sessions.Write("b.json", Gzip(kSecond));
  sessions.Write("README.md", "not a session");
  const std::string tar =
      Tar({{"x/README.md", "not a session"}, {"x/a.json", kFirst}, {"x/b.json", kSecond}});

  const Result<Trace> from_folder = Read(sessions.path());

  ASSERT_OK(from_folder);
  EXPECT_EQ(from_folder->distinct_blocks(), 6U) << "ids are local to a session";
  EXPECT_EQ(from_folder->session_count(), 3U);
  EXPECT_EQ(from_folder->origin().notes.size(), 2U) << "drawn starts and a file passed over";
  EXPECT_EQ(ContentOf(Read(folder.Write("a", tar))), Content(*from_folder));
  EXPECT_EQ(ContentOf(Read(folder.Write("b", Gzip(tar)))), Content(*from_folder));
  EXPECT_EQ(ContentOf(Read(folder.Write("c", Zstd(tar)))), Content(*from_folder));
}

TEST(SessionReaderTest, DrawsStartsFromTheSeed) {
  const TraceFolder folder;
  constexpr std::size_t kSessions = 2'000;
  std::vector<std::pair<std::string, std::string>> files;
  files.reserve(kSessions);
  for (std::size_t i = 0; i < kSessions; ++i) {
    files.emplace_back("s" + std::to_string(10'000 + i), kSecond);
  }
  ReadOptions options;
  options.paths = {folder.Write("a", Tar(files))};
  const Result<Trace> one = Read(options);
  const Result<Trace> again = Read(options);
  options.seed = 2;
  const Result<Trace> other = Read(options);
  options.session_gap_s = 0;
  const Result<Trace> together = Read(options);

  ASSERT_OK(one);
  ASSERT_OK(other);
  ASSERT_OK(together);
  EXPECT_EQ(ContentOf(again), Content(*one));
  EXPECT_NE(Content(*other), Content(*one));
  EXPECT_EQ(one->requests().front().time_ms, 0);
  const double mean_s = static_cast<double>(one->requests().back().time_ms) / 1'999 / 1'000;
  EXPECT_GT(mean_s, 80);
  EXPECT_LT(mean_s, 100);
  EXPECT_EQ(together->requests().back().time_ms, 0);
}

TEST(SessionReaderTest, NamesTheFileTheRequestAndTheField) {
  const TraceFolder folder;
  const std::map<std::string, std::string> cases = {
      {Session("a", SessionRequest("0", 128, "1,2") + "," + SessionRequest("-1", 64, "1")),
       "request 2: field \"t\""},
      {Session("a", SessionRequest("0", 128, "1,2") + "," + SessionRequest("1", 64, "1,\"x\"")),
       "request 2: field \"hash_ids[1]\" is no number"},
      {Session("a", SessionRequest("0", 128, "1,2") + "," + SessionRequest("1", 640, "1")),
       "request 2: field \"hash_ids\" has 1 ids"},
      {Session("a", SessionRequest("0", 128, "1,2") + ",{\"t\":1,\"in\":64,\"hash_ids\":[1]}"),
       "request 2: field \"out\" is missing"},
      {Session("a", SessionRequest("0", 128, "1,2") + ",7"), "request 2: is no JSON object"},
      {Session("a", SessionRequest("0", 128, "1,2") + ",{\"requests\":[" +
                        SessionRequest("0", 64, "1") + "]}"),
       "\"t\" is missing in a sub-agent"},
  };
  for (const auto& [text, message] : cases) {
    ReadOptions options;
    options.paths = {folder.Write("tar", Tar({{"bad.json", text}}))};
    const Result<Trace> strict = Read(options);
    EXPECT_STATUS(strict, StatusCode::kDataLoss);
    EXPECT_NE(strict.status().message().find("bad.json"), std::string_view::npos);
    EXPECT_NE(strict.status().message().find(message), std::string_view::npos)
        << strict.status().message();
    options.skip_bad_lines_max = 1;
    const Result<Trace> skipping = Read(options);
    ASSERT_OK(skipping);
    EXPECT_EQ(skipping->requests().size(), 1U);
    EXPECT_EQ(skipping->origin().skipped_lines, 1U);
  }
}

// A file that ends in the middle gives nothing of it, and can be skipped as a whole.
TEST(SessionReaderTest, TakesAllOrNothingOfAFile) {
  const TraceFolder folder;
  ReadOptions options;
  options.paths = {folder.Write(
      "a",
      Tar({{"a", kFirst.substr(0, kFirst.size() - 9)}, {"b", kSecond}, {"c", kSecond + "}"}}))};
  EXPECT_STATUS(Read(options), StatusCode::kDataLoss);

  options.skip_bad_lines_max = 2;
  const Result<Trace> trace = Read(options);

  ASSERT_OK(trace);
  EXPECT_EQ(trace->requests().size(), 1U);
  EXPECT_EQ(trace->origin().skipped_lines, 2U);

  const std::string tar = Tar({{"a", kFirst}, {"b", kSecond}});
  options.paths = {folder.Write("b", tar.substr(0, 700))};
  EXPECT_STATUS(Read(options), StatusCode::kDataLoss);
}

TEST(SessionReaderTest, TellsABlockSizeThatIsNotGiven) {
  const TraceFolder folder;
  std::string text = kFirst;
  text.replace(text.find("\"block_size\":64"), 15, "\"other\":3");

  EXPECT_EQ(ContentOf(Read(folder.Write("a", text))), ContentOf(Read(folder.Write("b", kFirst))));
}

// Later turns hold only what is new, so they must come after everything before them.
TEST(JsonlReaderTest, AppendsAiperfTurnsAndSortsThemByTime) {
  const TraceFolder folder;
  const std::string text =
      "{\"session_id\":\"a\",\"timestamp\":100,\"input_length\":128,\"output_length\":1,\"hash_"
      "ids\":[1,2]}\n"
      "{\"session_id\":\"a\",\"delay\":50.5,\"input_length\":64,\"output_length\":2,\"hash_ids\":["
      "3]}\n"
      "{\"session_id\":\"b\",\"timestamp\":120,\"input_length\":128,\"output_length\":3,\"hash_"
      "ids\":[1,2]}\n"
      "{\"session_id\":\"a\",\"delay\":0,\"input_length\":64,\"output_length\":4,\"hash_ids\":[4]}"
      "\n"
      "{\"session_id\":\"b\",\"delay\":1,\"input_length\":64,\"output_length\":5,\"hash_ids\":[5]}"
      "\n";

  const Result<Trace> trace = Read(folder.Write("a", text));

  ASSERT_OK(trace);
  EXPECT_EQ(trace->origin().format, "aiperf");
  EXPECT_EQ(Content(*trace),
            "64 tokens a block, 5 distinct, 14 references, 2 sessions, chained 1\n"
            "100 128 1 0: 0 1\n"
            "120 128 3 1: 0 1\n"
            "121 192 5 1: 0 1 2\n"
            "150 192 2 0: 0 1 3\n"
            "150 256 4 0: 0 1 3 4\n");
  EXPECT_STATUS(Read(folder.Write("b", text.substr(text.find('\n') + 1))), StatusCode::kDataLoss);
}

// Equal ids of single blocks are equal prefixes only behind equal prefixes.
TEST(JsonlReaderTest, ChainsBailianBlocksAndFollowsChats) {
  const TraceFolder folder;
  const std::string text =
      "{\"chat_id\":1,\"parent_chat_id\":-1,\"timestamp\":0.0,\"input_length\":40,\"output_"
      "length\":1,"
      "\"type\":\"text\",\"turn\":1,\"hash_ids\":[7,8,9]}\n"
      "{\"chat_id\":2,\"parent_chat_id\":1,\"timestamp\":61.114,\"input_length\":48,\"output_"
      "length\":1,"
      "\"type\":\"text\",\"turn\":2,\"hash_ids\":[7,8,8]}\n"
      "{\"chat_id\":3,\"parent_chat_id\":2,\"timestamp\":61.1149,\"input_length\":33,\"output_"
      "length\":1,"
      "\"type\":\"text\",\"turn\":3,\"hash_ids\":[8,8,9]}\n"
      "{\"chat_id\":9,\"parent_chat_id\":77,\"timestamp\":62,\"input_length\":16,\"output_length\":"
      "1,"
      "\"type\":\"text\",\"turn\":4,\"hash_ids\":[7]}\n";

  const Result<Trace> trace = Read(folder.Write("a", text));

  ASSERT_OK(trace);
  EXPECT_EQ(trace->origin().format, "bailian");
  EXPECT_EQ(Content(*trace),
            "16 tokens a block, 7 distinct, 10 references, 2 sessions, chained 1\n"
            "0 40 1 0: 0 1 2\n"
            "61114 48 1 0: 0 1 3\n"
            "61114 33 1 0: 4 5 6\n"
            "62000 16 1 1: 0\n");
}

const std::string kRagpulse =
    "{\"timestamp\":\"20\",\"input_length\":99,\"output_length\":1,\"hash_ids\":{\"sys_prompt\":[1]"
    ","
    "\"passages_ids\":[1,2],\"history\":[],\"web_search\":[],\"user_input\":[3]},\"session_id\":"
    "\"a\"}\n"
    "{\"timestamp\":\"10.5\",\"input_length\":99,\"output_length\":2,\"hash_ids\":{\"user_input\":["
    "4],"
    "\"sys_prompt\":[1],\"passages_ids\":[1],\"history\":[],\"web_search\":[]},\"session_id\":"
    "\"b\"}\n";

std::vector<std::pair<std::string, std::string>> RagpulseFiles() {
  return {{"0_trace.jsonl", kRagpulse},
          {"1_sys_prompt.jsonl", "{\"sys_prompt_id\":1,\"token_length\":70}\n"},
          {"2_passages.jsonl",
           "{\"passage_id\":1,\"token_length\":60}\n{\"passage_id\":2,\"token_length\":5}\n"},
          {"3_history.jsonl", "{\"history_id\":1,\"token_length\":500}\n"},
          {"4_user_input.jsonl",
           "{\"user_input_id\":3,\"token_length\":9}\n{\"user_input_id\":4,\"token_length\":9}\n"},
          {"5_web_search.jsonl", "{\"web_search_id\":1,\"token_length\":500}\n"}};
}

// 70 + 60 = 130 tokens are common: two blocks of 64, and a third that starts alike and ends
// otherwise.
TEST(RagpulseReaderTest, CutsChunksIntoBlocks) {
  const TraceFolder folder;
  const TraceFolder files;
  for (const auto& [name, content] : RagpulseFiles()) {
    files.Write(name, content);
  }

  const Result<Trace> trace = Read(folder.Write("a", Zstd(Tar(RagpulseFiles()))));

  ASSERT_OK(trace);
  EXPECT_EQ(Content(*trace),
            "64 tokens a block, 4 distinct, 6 references, 2 sessions, chained 1\n"
            "10500 139 2 0: 0 1 2\n"
            "20000 144 1 1: 0 1 3\n");
  EXPECT_EQ(ContentOf(Read(files.path())), Content(*trace));
}

TEST(RagpulseReaderTest, NamesAChunkWithoutLength) {
  const TraceFolder folder;
  auto files = RagpulseFiles();
  files[4].second = "{\"user_input_id\":3,\"token_length\":9}\n";
  ReadOptions options;
  options.paths = {folder.Write("a", Tar(files))};

  const Result<Trace> strict = Read(options);
  options.skip_bad_lines_max = 1;
  const Result<Trace> skipping = Read(options);

  EXPECT_STATUS(strict, StatusCode::kDataLoss);
  EXPECT_NE(strict.status().message().find("line 2: field \"hash_ids.user_input\" names chunk 4"),
            std::string_view::npos)
      << strict.status().message();
  ASSERT_OK(skipping);
  EXPECT_EQ(skipping->requests().size(), 1U);
  EXPECT_STATUS(Read(folder.Write("b", kRagpulse)), StatusCode::kInvalidArgument);
}

TEST(AzureReaderTest, ReadsTimestampsOfBothReleases) {
  EXPECT_EQ(ParseTimestamp("1970-01-01 00:00:00"), 0);
  EXPECT_EQ(ParseTimestamp("2023-11-16 18:17:03.9799600"), 1'700'158'623'979);
  EXPECT_EQ(ParseTimestamp("2024-05-10T00:00:00.009930+00:00"), 1'715'299'200'009);
  EXPECT_EQ(ParseTimestamp("2024-05-10 01:00:00.5+01:00"), 1'715'299'200'500);
  EXPECT_EQ(ParseTimestamp("2024-02-29 00:00:00Z"), 1'709'164'800'000);
  for (const char* text : {"", "2023-02-29 00:00:00", "2023-11-16", "2023-11-16 24:00:00",
                           "2023-13-16 00:00:00", "2023-11-16 18:17:03.", "2023-11-16 18:17:03 x",
                           "0000-11-16 18:17:03", "2023-11-16 18:17:0a", "9999-01-01 00:00:00"}) {
    EXPECT_EQ(ParseTimestamp(text), std::nullopt) << text;
  }
}

TEST(AzureReaderTest, FindsColumnsByNameAndRefusesBadRows) {
  const TraceFolder folder;
  const std::string text =
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 18:17:03.9799600,4808,10\r\n"
      "2023-11-16 18:17:04.0319600,3180,8";
  const Result<Trace> plain = Read(folder.Write("a", text));
  ASSERT_OK(plain);
  EXPECT_FALSE(plain->origin().has_blocks);
  EXPECT_EQ(Requests(*plain), (std::vector<std::pair<std::int64_t, std::uint32_t>>{
                                  {1'700'158'623'979, 4'808}, {1'700'158'624'031, 3'180}}));

  EXPECT_EQ(ContentOf(Read(folder.Write("q",
                                        "\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\r\n"
                                        "\"2023-11-16 18:17:03.9799600\",\"4808\",\"10\"\r\n"
                                        "2023-11-16 18:17:04.0319600,3180,8"))),
            Content(*plain));
  ReadOptions options;
  options.paths = {folder.Write("b",
                                "x,generatedtokens,\"timestamp\",contexttokens\n"
                                "1,10,2023-11-16 18:17:03.97996,4808\n"
                                "1,8,\"2023-11-16 18:17:04.03196\",3180,more\n")};
  EXPECT_EQ(ContentOf(Read(options)), Content(*plain));
  for (const char* row : {"2023-11-16 18:17:05,-1,8", "yesterday,1,8", "2023-11-16 18:17:05,1",
                          "2023-11-16 18:17:05,1,x", "2023-11-16 18:17:05,4294967296,1"}) {
    options.paths = {folder.Write("c", text + "\n" + row + "\n")};
    options.skip_bad_lines_max = 0;
    const Result<Trace> strict = Read(options);
    EXPECT_STATUS(strict, StatusCode::kDataLoss);
    EXPECT_NE(strict.status().message().find("line 4"), std::string_view::npos) << row;
    options.skip_bad_lines_max = 1;
    EXPECT_EQ(ContentOf(Read(options)), Content(*plain));
  }
}

TEST(RecognizeFormatTest, GoesByContent) {
  const std::string mooncake =
      R"({"timestamp":1,"input_length":5,"output_length":1,"hash_ids":[1],"session_id":"a"})";
  const std::string later = R"({"delay":1,"input_length":5,"hash_ids":[1],"session_id":"a"})";
  EXPECT_EQ(*RecognizeFormat(mooncake), "mooncake");
  EXPECT_EQ(*RecognizeFormat("broken\n" + mooncake), "mooncake");
  EXPECT_EQ(*RecognizeFormat(mooncake + "\n" + later), "aiperf");
  EXPECT_EQ(*RecognizeFormat(kFirst), "sessions");
  EXPECT_EQ(*RecognizeFormat(kRagpulse), "ragpulse");
  EXPECT_EQ(*RecognizeFormat("TimeStamp,ContextTokens,GeneratedTokens\n"), "azure");
  EXPECT_STATUS(RecognizeFormat("id,prompt\n1,hello\n"), StatusCode::kDataLoss);
}

// B is told by the lines alone; where they leave a choice the user has to say.
TEST(BlockSizeTest, IsToldOnlyWhereOneSizeFitsAllLines) {
  const TraceFolder folder;
  const auto line = [](int tokens, const std::string& ids, const std::string& more = {}) {
    return "{\"timestamp\":0,\"input_length\":" + std::to_string(tokens) +
           ",\"output_length\":1,\"hash_ids\":[" + ids + "]" + more + "}\n";
  };
  const Result<Trace> several = Read(folder.Write("a", line(100, "1") + line(120, "2")));
  const Result<Trace> none = Read(folder.Write(
      "b", line(1'000, "1,2") + line(1'000, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16")));
  const Result<Trace> one = Read(folder.Write("c", line(100, "1") + line(200, "1,2,3")));
  const Result<Trace> field = Read(folder.Write("d", line(100, "1", ",\"block_size\":100")));

  EXPECT_STATUS(several, StatusCode::kInvalidArgument);
  EXPECT_NE(several.status().message().find("64, 128"), std::string_view::npos)
      << several.status().message();
  EXPECT_STATUS(none, StatusCode::kInvalidArgument);
  EXPECT_NE(none.status().message().find("--block-tokens"), std::string_view::npos);
  ASSERT_OK(one);
  EXPECT_EQ(one->origin().block_tokens, 64U);
  ASSERT_OK(field);
  EXPECT_EQ(field->origin().block_tokens, 100U);
}

}  // namespace
}  // namespace kvferry::replay
