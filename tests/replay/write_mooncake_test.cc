// Tests of the conversion: what is written reads back as the same trace.
#include "replay/write_mooncake.h"

#include <cstdio>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/replay/readers/trace_files.h"
#include "tests/support/shared_traces.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

using testing::Content;
using testing::Read;
using testing::SharedPath;
using testing::TraceFolder;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Status Convert(const Trace& trace, const std::string& path) {
  const File file(std::fopen(path.c_str(), "wb"));
  EXPECT_NE(file, nullptr);
  return WriteMooncake(trace, file.get());
}

void ExpectRoundTrip(const std::string& path) {
  const TraceFolder folder;
  ReadOptions options;
  options.paths = {path};
  const Result<Trace> trace = Read(options);
  ASSERT_OK(trace);
  const std::string target = folder.path() + "/converted.jsonl";

  ASSERT_OK(Convert(*trace, target));

  options.paths = {target};
  options.block_tokens = trace->origin().block_tokens;
  const Result<Trace> converted = Read(options);
  ASSERT_OK(converted);
  EXPECT_EQ(converted->origin().format, "mooncake");
  EXPECT_EQ(converted->origin().has_sessions, trace->origin().has_sessions);
  EXPECT_TRUE(Content(*converted) == Content(*trace)) << path;
}

TEST(WriteMooncakeTest, ReadsBackAsTheSameTrace) {
  for (const char* file : {"traces/agentic-coding/merged_first20min.jsonl",
                           "traces/mooncake-conversation/conversation_trace.jsonl",
                           "traces/ragpulse/raw_d0-4.tar.zst"}) {
    KVFERRY_REQUIRE_SHARED(file);
    ExpectRoundTrip(SharedPath(file).string());
  }
}

TEST(WriteMooncakeTest, KeepsUnchainedIdsApart) {
  const TraceFolder folder;
  ExpectRoundTrip(folder.Write(
      "a",
      "{\"timestamp\":0,\"input_length\":192,\"output_length\":7,\"hash_ids\":[5,6,5]}\n"
      "{\"timestamp\":-7,\"input_length\":130,\"output_length\":7,\"hash_ids\":[6,5]}\n"
      "{\"timestamp\":0,\"input_length\":63,\"output_length\":0,\"hash_ids\":[]}\n"
      "{\"timestamp\":9,\"input_length\":100,\"output_length\":7,\"hash_ids\":[6],\"session_id\":"
      "\"a\"}\n"));
}

// Lengths without ids, and blocks that end inside a prompt, have no form in Mooncake JSONL.
TEST(WriteMooncakeTest, RefusesWhatItCannotExpress) {
  const TraceFolder folder;
  const Result<Trace> azure = Read(folder.Write(
      "a", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,4808,10\n"));
  ASSERT_OK(azure);
  EXPECT_STATUS(Convert(*azure, folder.path() + "/b"), StatusCode::kInvalidArgument);
  ReadOptions options;
  options.block_tokens = 64;
  options.paths = {folder.Write("c",
                                "{\"session_id\":\"s\",\"timestamp\":0,\"input_length\":65,"
                                "\"output_length\":7,\"hash_ids\":[1,2]}\n"
                                "{\"session_id\":\"s\",\"delay\":5,\"input_length\":65,\"output_"
                                "length\":7,\"hash_ids\":[3,4]}\n")};
  const Result<Trace> turns = Read(options);
  ASSERT_OK(turns);
  EXPECT_STATUS(Convert(*turns, folder.path() + "/d"), StatusCode::kInvalidArgument);
}

// A full disk must not end in a short file that looks converted.
TEST(WriteMooncakeTest, ReportsThatTheSinkTakesNoMore) {
  const File full(std::fopen("/dev/full", "wb"));
  if (full == nullptr) {
    GTEST_SKIP() << "no /dev/full on this system";
  }
  const TraceFolder folder;
  ReadOptions options;
  options.paths = {folder.Write(
      "a", "{\"timestamp\":0,\"input_length\":129,\"output_length\":7,\"hash_ids\":[5,6,7]}\n")};
  options.block_tokens = 64;
  const Result<Trace> sized = Read(options);
  ASSERT_OK(sized);

  const Status status = WriteMooncake(*sized, full.get());

  EXPECT_STATUS(status, StatusCode::kIoError);
  EXPECT_NE(status.native_code(), 0);
}

}  // namespace
}  // namespace kvferry::replay
