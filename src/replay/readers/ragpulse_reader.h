// RagpulseReader: RAGPulse's requests as lists of chunks, cut into blocks by the chunks' lengths.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kvferry/status.h"

#include "replay/readers/byte_stream.h"
#include "replay/readers/read_context.h"

namespace kvferry::replay {

// Takes the trace file and the files of chunk lengths in any order, then AddRequests. A prompt is
// its chunks end to end, in the order of the five lists, cut every block_tokens (64 unless given);
// a block stands for its pieces of chunks and everything before them. Input tokens are the sum of
// the chunks' lengths; the published input_length counts separators and is not used. Sorted by
// time.
//
// Thread-compatible; the context must outlive it. For one archive.
class RagpulseReader {
 public:
  enum class FileKind : std::uint8_t { kNone, kTrace, kLengths };
  // By a file's beginning.
  static FileKind Recognize(std::string_view start);

  explicit RagpulseReader(ReadContext& context);
  ~RagpulseReader();
  RagpulseReader(const RagpulseReader&) = delete;
  RagpulseReader& operator=(const RagpulseReader&) = delete;

  // kDataLoss for a bad line that may not be skipped.
  Status ReadTraceFile(ByteStream& stream);
  Status ReadLengths(ByteStream& stream);
  // kDataLoss where a chunk has no length, or there was no trace file.
  Result<FileFacts> AddRequests();

 private:
  static constexpr std::size_t kLists = 5;

  struct Chunk {
    std::uint64_t id = 0;
    std::size_t list = 0;
  };
  struct Request {
    std::uint64_t line = 0;
    std::int64_t time_ms = 0;
    std::uint32_t output_tokens = 0;
    std::string session;
    std::size_t chunks_begin = 0;
    std::size_t chunks_count = 0;
  };
  struct Piece;
  class Cutter;
  struct Json;

  Status DecodeRequest(std::string_view text, Request& request);
  Status DecodeLength(std::string_view text);
  Status AddRequest(const Request& request, Cutter& cutter);

  ReadContext& context_;
  std::uint32_t block_tokens_;
  bool has_trace_ = false;
  std::vector<Request> requests_;
  std::vector<Chunk> chunks_;
  std::array<std::unordered_map<std::uint64_t, std::uint32_t>, kLists> lengths_;
  std::unique_ptr<Json> json_;
};

}  // namespace kvferry::replay
