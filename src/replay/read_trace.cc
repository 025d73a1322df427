// The formats by name, and all paths of a read one after the other.
#include "replay/read_trace.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "replay/readers/file_source.h"
#include "replay/readers/format.h"
#include "replay/readers/path_reader.h"
#include "replay/readers/read_context.h"

namespace kvferry::replay {
namespace {

constexpr std::array<TraceFormat, 6> kFormats = {{
    {"mooncake", "Mooncake JSONL: timestamp (ms), input_length, output_length, hash_ids"},
    {"sessions", "coding-agent sessions, one JSON file each: a file, a folder or a tar archive"},
    {"ragpulse", "RAGPulse's trace and chunk lengths: a folder or a tar archive"},
    {"azure", "Azure LLM inference CSV: TIMESTAMP, ContextTokens, GeneratedTokens; no block ids"},
    {"bailian", "Qwen-Bailian JSONL: chat_id, parent_chat_id, timestamp (s), hash_ids by block"},
    {"aiperf", "AIPerf multi-turn JSONL: session_id, timestamp or delay (ms), new hash_ids"},
}};

Status CheckOptions(const ReadOptions& options) {
  if (options.paths.empty()) {
    return Status::Error(StatusCode::kInvalidArgument, "no trace given: name one by --trace FILE");
  }
  const bool is_known = options.format.empty() ||
                        std::any_of(kFormats.begin(), kFormats.end(),
                                    [&](const auto& f) { return f.name == options.format; });
  if (!is_known) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "--format " + options.format + ": known are " + FormatNames());
  }
  if (std::count(options.paths.begin(), options.paths.end(), "-") > 1) {
    return Status::Error(StatusCode::kInvalidArgument, "standard input can be read only once");
  }
  if (!(options.session_gap_s >= 0)) {
    return Status::Error(StatusCode::kInvalidArgument, "--session-gap must not be below zero");
  }
  return Status::Ok();
}

}  // namespace

std::vector<TraceFormat> TraceFormats() {
  return {kFormats.begin(), kFormats.end()};
}

Result<Trace> ReadTrace(const ReadOptions& options, FunctionRef<void(const ReadProgress&)> report) {
  try {
    KVFERRY_RETURN_IF_ERROR(CheckOptions(options));
    ReadMeter meter(TotalBytes(options.paths), report);
    ReadContext context(options, meter);
    PathReader reader(context);
    for (const std::string& path : options.paths) {
      KVFERRY_RETURN_IF_ERROR(reader.Read(path).WithContext(path == "-" ? "standard input" : path));
    }
    return context.Finish();
  } catch (const std::bad_alloc&) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory left to read the trace");
  }
}

}  // namespace kvferry::replay
