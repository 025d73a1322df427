// ReadTrace: files of any known format into one decoded Trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "replay/trace.h"

namespace kvferry::replay {

struct ReadProgress {
  std::uint64_t bytes_read = 0;   // Of the files as given (compressed).
  std::uint64_t bytes_total = 0;  // 0: unknown (standard input).
  std::uint64_t requests = 0;
};

struct ReadOptions {
  std::vector<std::string> paths;  // Files, folders of session JSON, or "-" for standard input.
  std::string format;              // A name of TraceFormats(); empty: recognised by content.
  std::uint32_t block_tokens = 0;  // 0: the file's own field, or inferred from its lines.
  TraceSelection selection;
  std::uint64_t memory_max_bytes = UINT64_MAX;
  std::uint64_t skip_bad_lines_max = 0;
  bool shares_ids = false;    // Several files speak of the same blocks.
  double session_gap_s = 90;  // Mean of the drawn gaps between session starts; 0: all at once.
  std::uint64_t seed = 1;
};

struct TraceFormat {
  std::string_view name;
  std::string_view description;
};

// kInvalidArgument for usage (unknown format, block size that cannot be told), kDataLoss for a file
// that is not what it should be: file, line, field and reason. kIoError from the system.
// `report` is called now and then, on the caller's thread.
Result<Trace> ReadTrace(const ReadOptions& options, FunctionRef<void(const ReadProgress&)> report);

std::vector<TraceFormat> TraceFormats();

}  // namespace kvferry::replay
