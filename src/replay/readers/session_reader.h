// SessionReader: agentic-coding sessions, one JSON file a session, sub-agents included.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "base/random.h"
#include "replay/readers/byte_stream.h"
#include "replay/readers/read_context.h"

namespace kvferry::replay {

// For a file that stands among sessions and is none: a bad line of `context` if it is no JSON
// either, so that a session that was cut off is not taken for a file of another kind.
Status CheckIsJson(ReadContext& context, ByteStream& stream);

// Reads any number of session files. A session's times count from its own start, so starts are
// drawn: a Poisson process by the options' seed and mean gap, the first at zero, in the order of
// reading. Ids are local to a session and shared with its sub-agents, whose requests get sessions
// of their own. Holds the text of one file at a time.
//
// Thread-compatible; the context must outlive it.
class SessionReader {
 public:
  explicit SessionReader(ReadContext& context);
  ~SessionReader();
  SessionReader(const SessionReader&) = delete;
  SessionReader& operator=(const SessionReader&) = delete;

  // kDataLoss where the file is no session or has a bad request that may not be skipped;
  // kInvalidArgument where its block size cannot be told or is not that of the files before.
  Status ReadSession(ByteStream& stream);
  FileFacts facts() const;

 private:
  struct Request {
    std::uint64_t number = 0;  // In the file, from 1.
    std::int64_t time_ms = 0;  // From the session's start.
    std::uint64_t input_tokens = 0;
    std::uint64_t output_tokens = 0;
    std::uint32_t agent = 0;  // 0: the session itself, else a sub-agent.
    std::size_t ids_begin = 0;
    std::size_t ids_count = 0;
    Status problem{};  // Why it cannot be used.
  };
  class Decoder;

  Status AddSession();
  Status ChooseBlockSize();
  // The one size that fits the requests at hand, that of the sessions before if it is among
  // several; 0 where they do not tell.
  std::uint32_t InferBlockSize() const;
  std::int64_t DrawStart();

  ReadContext& context_;
  Random random_;
  double next_start_ms_ = 0;
  bool has_drawn_ = false;
  std::uint32_t block_tokens_ = 0;  // Of all sessions; 0 until known.
  std::uint32_t shared_scope_ = 0;
  bool has_shared_scope_ = false;
  // The session at hand.
  std::string id_;
  std::uint64_t own_block_tokens_ = 0;
  bool ids_are_global_ = false;
  std::uint64_t entries_ = 0;
  std::uint32_t agents_ = 0;
  std::vector<Request> requests_;
  std::vector<std::uint64_t> ids_;
  struct Json;
  std::unique_ptr<Json> json_;
};

}  // namespace kvferry::replay
