// PathReader: one path of a ReadTrace, whatever it is: a text, an archive or a folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "replay/readers/archive.h"
#include "replay/readers/byte_stream.h"
#include "replay/readers/ragpulse_reader.h"
#include "replay/readers/read_context.h"
#include "replay/readers/session_reader.h"

namespace kvferry::replay {

// Opens paths, decompresses, recognises the format and hands the bytes to its reader.
//
// Thread-compatible; the context must outlive it.
class PathReader {
 public:
  explicit PathReader(ReadContext& context) : context_(context) {}

  // A file, a folder or "-".
  Status Read(const std::string& path);
  // The content of a file that is not there as such; what Read does behind the open.
  Result<FileFacts> ReadContent(std::unique_ptr<ByteStream> content);

 private:
  Status ReadFolder(const std::string& path);
  Result<FileFacts> ReadText(PeekableStream& stream);
  Result<FileFacts> ReadJsonl(PeekableStream& stream, std::string_view format);
  Result<FileFacts> ReadArchive(Archive& archive);
  // What was met in an archive.
  struct Members {
    std::uint64_t sessions = 0;
    std::uint64_t ragpulse_files = 0;
    std::uint64_t others = 0;
    std::string other_names;  // The first few.
  };
  Status ReadMember(Archive& archive, RagpulseReader& ragpulse, Members& members);
  Status PassOver(Archive& archive, std::string_view start, Members& members);
  SessionReader& Sessions();

  ReadContext& context_;
  // One for all paths, so that session starts go on from path to path.
  std::unique_ptr<SessionReader> sessions_;
};

// What progress is measured against: the bytes of all files; 0 where a size is unknown.
std::uint64_t TotalBytes(const std::vector<std::string>& paths);

}  // namespace kvferry::replay
