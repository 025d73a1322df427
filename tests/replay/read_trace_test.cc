// Tests of ReadTrace: the public traces to the last number, and well-formed oddities.
#include "replay/read_trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "tests/replay/readers/trace_files.h"
#include "tests/support/shared_traces.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

using testing::Content;
using testing::ContentOf;
using testing::Gzip;
using testing::Read;
using testing::SharedPath;
using testing::TraceFolder;
using testing::Zstd;

struct Anchor {
  const char* file;
  const char* format;
  std::uint32_t block_tokens;
  std::size_t requests;
  std::uint64_t input_tokens;
  std::uint64_t block_refs;
  std::uint32_t distinct_blocks;
  std::uint32_t sessions;
};

// Counted by an independent program.
constexpr Anchor kAnchors[] = {
    {"traces/mooncake-conversation/conversation_trace.jsonl", "mooncake", 512, 12'031, 144'793'823,
     288'500, 182'790, 0},
    {"traces/agentic-coding/merged.jsonl.zst", "mooncake", 64, 4'373, 545'809'543, 8'526'116,
     284'882, 76},
    {"traces/agentic-coding/merged_first20min.jsonl", "mooncake", 64, 133, 18'367'340, 286'927,
     29'463, 7},
    {"traces/agentic-coding/sessions.tar.zst", "sessions", 64, 4'373, 545'809'543, 8'526'116,
     284'882, 76},
    {"traces/ragpulse/d0-4_blk64.jsonl", "mooncake", 64, 5'167, 15'127'791, 239'012, 164'378,
     2'899},
    {"traces/ragpulse/raw_d0-4.tar.zst", "ragpulse", 64, 5'167, 15'127'791, 239'012, 164'378,
     2'899},
    {"traces/azure-2023/AzureLLMInferenceTrace_code.csv", "azure", 0, 8'819, 18'059'974, 0, 0, 0},
    {"traces/azure-2023/AzureLLMInferenceTrace_conv.csv", "azure", 0, 19'366, 22'361'870, 0, 0, 0},
};

class SharedTraceTest : public ::testing::TestWithParam<Anchor> {};

TEST_P(SharedTraceTest, HasTheAnchorsCounts) {
  const Anchor& anchor = GetParam();
  KVFERRY_REQUIRE_SHARED(anchor.file);

  const Result<Trace> trace = Read(SharedPath(anchor.file).string());

  ASSERT_OK(trace);
  EXPECT_EQ(trace->origin().format, anchor.format);
  EXPECT_EQ(trace->origin().block_tokens, anchor.block_tokens);
  EXPECT_EQ(trace->origin().has_blocks, anchor.block_tokens != 0);
  EXPECT_EQ(trace->origin().has_sessions, anchor.sessions != 0);
  EXPECT_EQ(trace->requests().size(), anchor.requests);
  EXPECT_EQ(trace->input_tokens(), anchor.input_tokens);
  EXPECT_EQ(trace->block_refs(), anchor.block_refs);
  EXPECT_EQ(trace->distinct_blocks(), anchor.distinct_blocks);
  EXPECT_EQ(trace->session_count(), anchor.sessions);
  EXPECT_TRUE(trace->is_chained());
}

INSTANTIATE_TEST_SUITE_P(Shared,
                         SharedTraceTest,
                         ::testing::ValuesIn(kAnchors),
                         [](const auto& anchor) { return "Trace" + std::to_string(anchor.index); });

// The derived file was made by another program: request for request it must be the same trace.
TEST(ReadTraceTest, CutsRagpulseAsTheDerivedTraceDoes) {
  KVFERRY_REQUIRE_SHARED("traces/ragpulse/raw_d0-4.tar.zst");

  const Result<Trace> raw = Read(SharedPath("traces/ragpulse/raw_d0-4.tar.zst").string());
  const Result<Trace> derived = Read(SharedPath("traces/ragpulse/d0-4_blk64.jsonl").string());

  ASSERT_OK(raw);
  ASSERT_OK(derived);
  // Too long to print when it differs.
  EXPECT_TRUE(Content(*raw) == Content(*derived));
}

// Several files are one stream by time; with shared ids equal numbers are equal blocks.
TEST(ReadTraceTest, MergesFilesAndSharesIdsOnlyWhenSaid) {
  const TraceFolder folder;
  const std::string a = folder.Write("a",
                                     "{\"timestamp\":0,\"input_length\":128,\"output_length\":1,"
                                     "\"hash_ids\":[1,2]}\n"
                                     "{\"timestamp\":9,\"input_length\":192,\"output_length\":1,"
                                     "\"hash_ids\":[1,2,3]}\n");
  const std::string b = folder.Write(
      "b", "{\"timestamp\":4,\"input_length\":128,\"output_length\":1,\"hash_ids\":[1,2]}\n");
  ReadOptions options;
  options.paths = {a, b};

  const Result<Trace> apart = Read(options);
  options.shares_ids = true;
  const Result<Trace> shared = Read(options);

  ASSERT_OK(apart);
  ASSERT_OK(shared);
  EXPECT_EQ(apart->distinct_blocks(), 5U);
  EXPECT_EQ(shared->distinct_blocks(), 3U);
  EXPECT_EQ(apart->requests()[1].time_ms, 4);
  EXPECT_EQ(apart->origin().name, a + " + " + b);
  EXPECT_EQ(apart->origin().sha256.size(), 64 * 2 + 3U);
}

constexpr const char* kGood =
    "{\"timestamp\":0,\"input_length\":100,\"output_length\":7,\"hash_ids\":[5,6]}\n"
    "{\"timestamp\":30,\"input_length\":200,\"output_length\":8,\"hash_ids\":[5,6,7,8]}\n"
    "{\"timestamp\":31,\"input_length\":64,\"output_length\":9,\"hash_ids\":[9]}\n"
    "{\"timestamp\":50,\"input_length\":129,\"output_length\":9,\"hash_ids\":[5,6,10]}\n";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Each oddity is met in the wild, and none of them may change a number.
TEST(ReadTraceTest, ReadsWellFormedOdditiesAlike) {
  const TraceFolder folder;
  const std::string good = kGood;
  const std::string half = good.substr(0, good.find("{\"timestamp\":31"));
  const std::string rest = good.substr(half.size());
  const Result<Trace> plain = Read(folder.Write("plain.jsonl", good));
  ASSERT_OK(plain);
  EXPECT_EQ(plain->origin().block_tokens, 64U);
  const std::vector<std::tuple<std::string, std::string, std::string>> oddities = {
      {"CRLF", "a.jsonl", Replaced(good, "\n", "\r\n")},
      {"byte order mark", "a.jsonl", "\xef\xbb\xbf" + good},
      {"no last newline", "a.jsonl", good.substr(0, good.size() - 1)},
      {"no last newline, CR", "a.jsonl", good.substr(0, good.size() - 1) + "\r"},
      {"blank lines", "a.jsonl", "\n \n" + Replaced(good, "\n", "\n\n\t\r\n")},
      {"unknown fields", "a.jsonl",
       Replaced(good, "}",
                ",\"x\":{\"hash_ids\":[1,[2]],\"y\":null},\"turn\":1,\"z\":\"\\u00e9}\"}")},
      {"fields in another order", "a.jsonl",
       Replaced(good, "{\"timestamp\"", "{\"z\":[true,1.5e3],\"timestamp\"")},
      {"white space", "a.jsonl", Replaced(Replaced(good, ",", " ,\t"), ":", " : ")},
      {"gzip", "a.jsonl.gz", Gzip(good)},
      {"gzip members", "a.jsonl.gz", Gzip(half) + Gzip(rest)},
      {"zstd", "a.jsonl.zst", Zstd(good)},
      {"zstd frames", "a.jsonl.zst", Zstd(half) + Zstd(rest)},
      {"misleading endings", "a.csv", good},
      {"misleading endings", "a.jsonl.zst", good},
      {"misleading endings", "a.gz", Zstd(good)},
      {"misleading endings", "a.zst", Gzip(good)},
  };

  for (const auto& [oddity, name, bytes] : oddities) {
    const Result<Trace> trace = Read(folder.Write(name, bytes));
    EXPECT_EQ(ContentOf(trace), Content(*plain)) << oddity;
  }
}

TEST(ReadTraceTest, ReadsStandardInput) {
  const TraceFolder folder;
  const std::string path = folder.Write("a", Gzip(kGood));
  const int kept = ::dup(STDIN_FILENO);
  const int file = ::open(path.c_str(), O_RDONLY);
  ASSERT_EQ(::dup2(file, STDIN_FILENO), STDIN_FILENO);

  const Result<Trace> trace = Read("-");

  ::dup2(kept, STDIN_FILENO);
  ::close(file);
  ::close(kept);
  EXPECT_EQ(ContentOf(trace), ContentOf(Read(path)));
  ASSERT_OK(trace);
  EXPECT_EQ(trace->origin().name, "-");
}

// A digest of the bytes as given says which file a report is about.
TEST(ReadTraceTest, GivesTheDigestOfTheCompressedBytes) {
  const TraceFolder folder;
  const std::string bytes = Gzip(kGood);
  Sha256 sha256;
  sha256.Update(std::as_bytes(std::span(bytes)));

  const Result<Trace> trace = Read(folder.Write("a", bytes));

  ASSERT_OK(trace);
  EXPECT_EQ(trace->origin().sha256, ToHex(sha256.Finish()));
}

// What a selection leaves out must not cost memory, but the digest is of the whole file.
TEST(ReadTraceTest, SelectsWhileItReads) {
  const TraceFolder folder;
  ReadOptions options;
  options.paths = {folder.Write("a", kGood)};
  const Result<Trace> all = Read(options);
  options.block_tokens = 64;
  options.selection = {.from_ms = 10, .to_ms = 50, .requests_max = 1};

  const Result<Trace> some = Read(options);

  ASSERT_OK(some);
  ASSERT_EQ(some->requests().size(), 1U);
  EXPECT_EQ(some->requests()[0].time_ms, 30);
  EXPECT_EQ(some->distinct_blocks(), 4U);
  EXPECT_EQ(some->origin().sha256, all->origin().sha256);
}

TEST(ReadTraceTest, ReportsProgressUpToTheWholeFile) {
  const TraceFolder folder;
  ReadOptions options;
  options.paths = {folder.Write("a", kGood)};
  ReadProgress last;

  ASSERT_OK(ReadTrace(options, [&](const ReadProgress& progress) { last = progress; }));

  EXPECT_EQ(last.bytes_total, std::string(kGood).size());
  EXPECT_EQ(last.bytes_read, last.bytes_total);
  EXPECT_EQ(last.requests, 4U);
}

TEST(ReadTraceTest, SaysWhatItWouldNeedAboveTheMemoryLimit) {
  const TraceFolder folder;
  std::string text;
  for (int i = 0; i < 3'000; ++i) {
    text += "{\"timestamp\":" + std::to_string(i) +
            ",\"input_length\":128,\"output_length\":1,\"hash_ids\":[" + std::to_string(2 * i) +
            "," + std::to_string(2 * i + 1) + "]}\n";
  }
  ReadOptions options;
  options.paths = {folder.Write("a", text)};
  options.memory_max_bytes = 100'000;

  const Result<Trace> trace = Read(options);

  EXPECT_STATUS(trace, StatusCode::kResourceExhausted);
  EXPECT_NE(trace.status().message().find("requests and"), std::string_view::npos);
  // The file is in the buffers whole, so its share read says nothing about what it needs.
  EXPECT_EQ(trace.status().message().find("all of it needs about"), std::string_view::npos);
}

TEST(ReadTraceTest, SaysWhatAllOfALargeFileWouldNeed) {
  const TraceFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    text += "{\"timestamp\":" + std::to_string(i) +
            ",\"input_length\":64,\"output_length\":1,\"hash_ids\":[" + std::to_string(i) + "]}" +
            std::string(2'400, ' ') + "\n";
  }
  ReadOptions options;
  options.paths = {folder.Write("a", text)};
  options.block_tokens = 64;
  const Result<Trace> whole = Read(options);
  ASSERT_OK(whole);
  options.memory_max_bytes = whole->memory_bytes() * 3 / 4;

  const Result<Trace> trace = Read(options);

  EXPECT_STATUS(trace, StatusCode::kResourceExhausted);
  EXPECT_NE(trace.status().message().find("all of it needs about"), std::string_view::npos)
      << trace.status().message();
}

// Blank lines in front of a trace change nothing, however many.
TEST(ReadTraceTest, ReadsWhatFollowsMegabytesOfBlankLines) {
  const TraceFolder folder;
  const std::string blanks = std::string(3 << 19, ' ') + std::string(3 << 19, '\n');

  EXPECT_EQ(ContentOf(Read(folder.Write("a", blanks + kGood))),
            ContentOf(Read(folder.Write("b", kGood))));
  EXPECT_STATUS(Read(folder.Write("c", blanks)), StatusCode::kDataLoss);
}

TEST(ReadTraceTest, RefusesWhatDoesNotGoTogether) {
  const TraceFolder folder;
  const std::string good = folder.Write("good", kGood);
  ReadOptions options;
  EXPECT_STATUS(Read(options), StatusCode::kInvalidArgument);
  options.paths = {folder.path() + "/absent"};
  EXPECT_STATUS(Read(options), StatusCode::kIoError);
  options.paths = {"-", "-"};
  EXPECT_STATUS(Read(options), StatusCode::kInvalidArgument);
  options.paths = {good};
  options.format = "parquet";
  EXPECT_STATUS(Read(options), StatusCode::kInvalidArgument);
  options.format = {};
  options.paths = {good, folder.Write("azure",
                                      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                      "2023-11-16 18:17:03.97,4808,10\n")};
  EXPECT_STATUS(Read(options), StatusCode::kInvalidArgument);
  options.paths = {
      good,
      folder.Write("large", Replaced(kGood, "\"input_length\":", "\"x\":1,\"input_length\":1"))};
  EXPECT_FALSE(Read(options).has_value());
}

}  // namespace
}  // namespace kvferry::replay
