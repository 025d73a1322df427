// ReadBytes: what every fuzz target over whole traces does with its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "replay/read_trace.h"
#include "replay/readers/byte_stream.h"
#include "replay/readers/file_source.h"
#include "replay/readers/path_reader.h"
#include "replay/readers/read_context.h"

namespace kvferry::fuzz {

// Reads `text` as a trace and checks what must hold for any trace. The first byte chooses options.
inline void ReadBytes(std::string_view text, const char* format) {
  if (text.empty()) {
    return;
  }
  const auto choice = static_cast<unsigned char>(text.front());
  text.remove_prefix(1);
  replay::ReadOptions options;
  options.paths = {"input"};
  options.format = format;
  options.memory_max_bytes = std::uint64_t{64} << 20;
  options.skip_bad_lines_max = (choice & 1U) != 0 ? 1'000 : 0;
  options.block_tokens = (choice & 2U) != 0 ? 64 : 0;
  options.session_gap_s = (choice & 4U) != 0 ? 0 : 90;
  options.selection.requests_max = (choice & 8U) != 0 ? 3 : UINT64_MAX;
  const auto ignore = [](const replay::ReadProgress&) {
  };
  replay::ReadMeter meter(text.size(), ignore);
  replay::ReadContext context(options, meter);
  replay::PathReader reader(context);
  const Result<replay::FileFacts> facts =
      reader.ReadContent(std::make_unique<replay::TextStream>(text));
  if (!facts.has_value()) {
    KVFERRY_CHECK(!facts.error().message().empty());
    return;
  }
  context.AddFile("input", "", *facts);
  const Result<replay::Trace> trace = context.Finish();
  if (!trace.has_value()) {
    return;
  }
  std::vector<EntryIndex> path;
  for (const replay::TraceRequest& request : trace->requests()) {
    path.resize(request.block_count);
    trace->ReadPath(request, path);
    EntryIndex before = kNoEntry;
    for (const EntryIndex entry : path) {
      KVFERRY_CHECK(static_cast<std::uint32_t>(entry) < trace->distinct_blocks());
      KVFERRY_CHECK(!trace->is_chained() || trace->parent(entry) == before);
      before = entry;
    }
  }
}

}  // namespace kvferry::fuzz
