// Lines are put together in one buffer, which is written whenever it is full.
#include "replay/write_mooncake.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace kvferry::replay {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;

template <class Integer>
void AppendNumber(std::string& text, Integer value) {
  std::array<char, 24> digits{};
  const std::to_chars_result end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value);
  text.append(digits.data(), end.ptr);
}

Status CheckExpressible(const Trace& trace) {
  const std::uint64_t block_tokens = trace.origin().block_tokens;
  if (!trace.origin().has_blocks || block_tokens == 0) {
    return Status::Error(StatusCode::kInvalidArgument,
                         trace.origin().name +
                             " has no block ids, which Mooncake JSONL needs: it cannot be "
                             "converted; replay it as it "
                             "is for its lengths and arrivals");
  }
  std::size_t number = 0;
  for (const TraceRequest& request : trace.requests()) {
    ++number;
    const std::uint64_t full = request.input_tokens / block_tokens;
    const std::uint64_t all = (request.input_tokens + block_tokens - 1) / block_tokens;
    if (request.block_count != full && request.block_count != all) {
      return Status::Error(
          StatusCode::kInvalidArgument,
          "request " + std::to_string(number) + " of " + trace.origin().name + " has " +
              std::to_string(request.block_count) + " blocks for " +
              std::to_string(request.input_tokens) +
              " tokens, which Mooncake JSONL cannot express: replay the trace as it "
              "is");
    }
  }
  return Status::Ok();
}

void AppendHead(const TraceRequest& request, std::uint32_t block_tokens, std::string& text) {
  text += R"({"timestamp": )";
  AppendNumber(text, request.time_ms);
  text += R"(, "input_length": )";
  AppendNumber(text, request.input_tokens);
  text += R"(, "output_length": )";
  AppendNumber(text, request.output_tokens);
  if (request.session != kNoSession) {
    text += R"(, "session_id": ")";
    AppendNumber(text, request.session);
    text += '"';
  }
  text += R"(, "block_size": )";
  AppendNumber(text, block_tokens);
  text += R"(, "hash_ids": [)";
}

Status Write(std::string& text, std::FILE* sink) {
  if (std::fwrite(text.data(), 1, text.size(), sink) != text.size()) {
    return Status::Error(StatusCode::kIoError, "cannot write the converted trace", errno);
  }
  text.clear();
  return Status::Ok();
}

}  // namespace

Status WriteMooncake(const Trace& trace, std::FILE* sink) {
  KVFERRY_RETURN_IF_ERROR(CheckExpressible(trace));
  std::vector<EntryIndex> path(trace.path_blocks_max());
  std::string text;
  for (const TraceRequest& request : trace.requests()) {
    AppendHead(request, trace.origin().block_tokens, text);
    const std::span<EntryIndex> blocks(path.data(), request.block_count);
    trace.ReadPath(request, blocks);
    std::string_view separator;
    for (const EntryIndex block : blocks) {
      text += separator;
      AppendNumber(text, static_cast<std::uint32_t>(block));
      separator = ", ";
    }
    text += "]}\n";
    if (text.size() >= kBufferBytes) {
      KVFERRY_RETURN_IF_ERROR(Write(text, sink));
    }
  }
  KVFERRY_RETURN_IF_ERROR(Write(text, sink));
  if (std::fflush(sink) != 0) {
    return Status::Error(StatusCode::kIoError, "cannot write the converted trace", errno);
  }
  return Status::Ok();
}

}  // namespace kvferry::replay
