// ReadContext: what all files of one ReadTrace share: the builder, bad lines, notes and limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "replay/read_trace.h"
#include "replay/readers/file_source.h"
#include "replay/trace.h"

namespace kvferry::replay {

// What a reader found out about one file.
struct FileFacts {
  std::string_view format;
  std::uint32_t block_tokens = 0;
  bool has_blocks = true;
  bool has_sessions = false;
};

// How the requests that follow are meant.
struct StreamKind {
  std::uint32_t scope = 0;
  bool ids_are_single = false;  // Each id stands for its block alone, not for the prefix.
  bool sorts_by_time = false;   // Else file order stands, also where times go back.
};

// Thread-compatible.
class ReadContext {
 public:
  ReadContext(const ReadOptions& options, ReadMeter& meter);

  const ReadOptions& options() const noexcept { return options_; }
  ReadMeter& meter() noexcept { return meter_; }

  // Ids of a scope speak of the same blocks. The same one for all files that share ids.
  std::uint32_t NewFileScope();
  // For ids that are local to one session, whatever the options say.
  std::uint32_t NewSessionScope() { return next_scope_++; }

  void BeginStream(const StreamKind& kind);
  // kResourceExhausted above the memory limit, saying how far reading came.
  Status Add(const RawRequest& request);
  // Everything that the selection can take has been added; what follows in this file is not wanted.
  bool is_satisfied() const noexcept { return is_satisfied_; }
  // Says that the one path is one stream in file order, so the selection can work while reading.
  void SelectWhileReading();

  // Decoded bytes that a reader holds beside the builder; kResourceExhausted as for Add.
  Status HoldBytes(std::uint64_t bytes);

  // Whether so many bytes more could be held for a while; kResourceExhausted if not.
  Status CheckRoom(std::uint64_t bytes) const;

  // Ok, and counted, while bad lines may be skipped; else the error to stop with. `what` is "line"
  // or "request", with its number from 1.
  Status BadLine(std::string_view what, std::uint64_t number, const Status& why);

  void AddNote(std::string note);
  void AddFile(const std::string& path, std::string sha256, const FileFacts& facts);

  // Joins what the files had to say. kInvalidArgument where they do not go together, kDataLoss when
  // there was no request at all.
  Result<Trace> Finish();

 private:
  // The error with how far reading came, and what that lets expect for the whole input.
  Status MemoryError(const std::string& reason) const;
  Status CheckFilesAgree() const;

  const ReadOptions& options_;
  ReadMeter& meter_;
  TraceBuilder builder_;
  StreamKind kind_;
  std::vector<std::string> notes_;
  struct File {
    std::string path;
    std::string sha256;
    FileFacts facts;
  };
  std::vector<File> files_;
  std::uint64_t skipped_lines_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t kept_requests_ = 0;
  std::uint64_t unsorted_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t first_unchained_ = 0;  // Position of the request, from 1.
  std::int64_t first_time_ms_ = 0;
  std::int64_t last_time_ms_ = 0;
  std::uint32_t next_scope_ = 0;
  std::optional<std::uint32_t> file_scope_;
  bool is_new_stream_ = true;
  bool selects_while_reading_ = false;
  bool is_satisfied_ = false;
};

}  // namespace kvferry::replay
