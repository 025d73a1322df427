// JsonlReader: the flat JSONL formats: Mooncake, AIPerf multi-turn and Qwen-Bailian.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvferry/status.h"

#include "replay/readers/block_size.h"
#include "replay/readers/byte_stream.h"
#include "replay/readers/read_context.h"
#include "replay/readers/trace_line.h"

namespace kvferry::replay {

enum class JsonlFormat : std::uint8_t { kMooncake, kAiperf, kBailian };

// Reads one file. All three formats need input_length, output_length and hash_ids, and
// - Mooncake: timestamp in ms; session_id and block_size where given; ids stand for prefixes; file
//   order stands.
// - AIPerf: session_id, and timestamp in ms for a session's first turn, delay in ms for later ones.
//   A turn's ids and tokens come after the session's earlier ones. When the turn before ended is
//   not known, so the delay counts from when it came. Sorted by time.
// - Bailian: timestamp in s, chat_id, parent_chat_id (-1 for none); each id stands for a block by
//   itself and is chained to those before it; a session is a chat with all that descend from it.
//
// Thread-compatible; the context must outlive it. For one file only.
class JsonlReader {
 public:
  JsonlReader(ReadContext& context, JsonlFormat format);

  // kDataLoss for the first line that is bad and may not be skipped; kInvalidArgument where the
  // block size is not given and the lines do not tell it.
  Result<FileFacts> Read(ByteStream& stream);

 private:
  // A line's content, before what depends on earlier lines.
  struct Record {
    std::uint64_t line = 0;
    std::int64_t time_ms = 0;
    bool is_delay = false;  // time_ms counts from the session's turn before.
    std::uint32_t input_tokens = 0;
    std::uint32_t output_tokens = 0;
    std::string session;
    std::string parent_session;  // Bailian: the chat that this one continues, or empty.
    std::vector<std::uint64_t> ids;
  };
  // What later turns of an AIPerf session build on.
  struct Turn {
    std::int64_t time_ms = 0;
    std::uint64_t input_tokens = 0;
    std::vector<std::uint64_t> ids;
  };

  Status Decode(std::string_view text, Record& record);
  Status DecodeTime(Record& record);
  Status DecodeChat(Record& record);
  Status DecodeBlockSize();
  Status Take(Record& record);
  Status DecideBlockSize();
  Status CheckBlockCount(const Record& record);
  Status Interpret(Record& record);
  Status InterpretTurn(Record& record);
  Result<std::uint32_t> FinalBlockTokens();

  ReadContext& context_;
  JsonlFormat format_;
  TraceLineParser parser_;
  TraceLine line_;
  std::uint32_t block_tokens_ = 0;  // Given by the user or the file; else the vote's.
  bool block_tokens_are_given_ = false;
  BlockSizeVote vote_;
  bool is_decided_ = false;
  std::vector<Record> undecided_;  // The first lines, until the vote.
  std::size_t undecided_ids_ = 0;
  bool has_records_ = false;
  bool has_sessions_ = false;
  std::unordered_map<std::string, Turn> turns_;
  std::unordered_map<std::string, std::string>
      roots_;  // Bailian: chat to its session's first chat.
};

}  // namespace kvferry::replay
