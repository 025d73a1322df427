// Paths to readers: opens, decompresses, recognises, and joins what comes out.
#include "replay/read_trace.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "replay/readers/decompress.h"
#include "replay/readers/file_source.h"
#include "replay/readers/format.h"
#include "replay/readers/jsonl_reader.h"
#include "replay/readers/read_context.h"

namespace kvferry::replay {
namespace {

constexpr std::array<TraceFormat, 3> kFormats = {{
    {"mooncake", "Mooncake JSONL: timestamp (ms), input_length, output_length, hash_ids"},
    {"bailian", "Qwen-Bailian JSONL: chat_id, parent_chat_id, timestamp (s), hash_ids a block"},
    {"aiperf", "AIPerf multi-turn JSONL: session_id, timestamp or delay (ms), new hash_ids"},
}};

Result<FileFacts> ReadText(PeekableStream& stream, std::string_view format, ReadContext& context) {
  if (format.empty()) {
    KVFERRY_ASSIGN_OR_RETURN(const std::string_view start, stream.Peek(kFormatBytes));
    KVFERRY_ASSIGN_OR_RETURN(format, RecognizeFormat(start));
  }
  const JsonlFormat jsonl = format == "mooncake" ? JsonlFormat::kMooncake
                            : format == "aiperf" ? JsonlFormat::kAiperf
                                                 : JsonlFormat::kBailian;
  const std::uint32_t scope = context.NewFileScope();
  const bool sorts_by_time = jsonl == JsonlFormat::kAiperf;
  context.BeginStream({.scope = scope,
                       .ids_are_single = jsonl == JsonlFormat::kBailian,
                       .sorts_by_time = sorts_by_time});
  if (context.options().paths.size() == 1 && !sorts_by_time) {
    context.SelectWhileReading();
  }
  return JsonlReader(context, jsonl).Read(stream);
}

Status ReadFile(const std::string& path, ReadContext& context) {
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<FileSource> file,
                           FileSource::Open(path, context.meter()));
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<PeekableStream> stream,
                           Decompress(std::make_unique<BorrowedStream>(*file)));
  KVFERRY_ASSIGN_OR_RETURN(const FileFacts facts,
                           ReadText(*stream, context.options().format, context));
  KVFERRY_RETURN_IF_ERROR(file->Drain());
  context.AddFile(path, file->TakeSha256(), facts);
  return Status::Ok();
}

// What progress is measured against; 0 where a size is unknown.
std::uint64_t TotalBytes(const std::vector<std::string>& paths) {
  std::uint64_t total = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(path, error);
    if (path == "-" || error) {
      return 0;
    }
    total += size;
  }
  return total;
}

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
    for (const std::string& path : options.paths) {
      KVFERRY_RETURN_IF_ERROR(
          ReadFile(path, context).WithContext(path == "-" ? "standard input" : path));
    }
    return context.Finish();
  } catch (const std::bad_alloc&) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory left to read the trace");
  }
}

}  // namespace kvferry::replay
