// The trace is held as chunk ids until all lengths are known, since it comes first in the archive.
#include "replay/readers/ragpulse_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "replay/readers/json_number.h"
#include "replay/readers/json_walk.h"
#include "replay/readers/line_reader.h"
#include "replay/readers/trace_line.h"

namespace kvferry::replay {
namespace {

constexpr std::uint32_t kDefaultBlockTokens = 64;
constexpr int kMsDigits = 3;
constexpr std::string_view kListNames[] = {"sys_prompt", "passages_ids", "history", "web_search",
                                           "user_input"};
constexpr std::string_view kIdNames[] = {"sys_prompt_id", "passage_id", "history_id",
                                         "web_search_id", "user_input_id"};
// Roughly what a map entry takes.
constexpr std::uint64_t kMapEntryBytes = 48;

std::optional<std::size_t> Find(std::span<const std::string_view> names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt
                              : std::optional(static_cast<std::size_t>(found - names.begin()));
}

// Calls `take` with each key and value of the object that `text` is.
template <class Take>
Status ForEachField(ondemand::parser& parser, std::string_view text, Take take) {
  KVFERRY_RETURN_IF_ERROR(CheckNoNul(text));
  ondemand::document document;
  KVFERRY_RETURN_IF_JSON_ERROR(
      parser
          .iterate(simdjson::padded_string_view(text.data(), text.size(),
                                                text.size() + simdjson::SIMDJSON_PADDING))
          .get(document));
  ondemand::object object;
  if (document.get_object().get(object) != simdjson::SUCCESS) {
    return Status::Error(StatusCode::kDataLoss, "is no JSON object");
  }
  for (auto element : object) {
    ondemand::field field;
    KVFERRY_RETURN_IF_JSON_ERROR(std::move(element).get(field));
    std::string_view key;
    KVFERRY_RETURN_IF_JSON_ERROR(field.unescaped_key().get(key));
    KVFERRY_RETURN_IF_ERROR(take(key, field.value()));
  }
  return CheckAtEnd(document);
}

Result<std::string_view> ReadString(std::string_view key, ondemand::value value) {
  ondemand::json_type type{};
  KVFERRY_RETURN_IF_JSON_ERROR(value.type().get(type));
  if (type != ondemand::json_type::string) {
    return BadField(key, "is no string");
  }
  std::string_view text;
  KVFERRY_RETURN_IF_JSON_ERROR(value.get_string().get(text));
  return text;
}

Result<std::uint64_t> ReadUnsigned(std::string_view key, ondemand::value value, std::uint64_t max) {
  const IntegerOrReason parsed = ParseUnsigned(TokenOf(value));
  if (!parsed.reason.empty()) {
    return BadField(key, parsed.reason);
  }
  if (parsed.value > max) {
    return BadField(key, "is above " + std::to_string(max));
  }
  return parsed.value;
}

}  // namespace

struct RagpulseReader::Json {
  ondemand::parser parser;
};

// A part of a chunk that lies within one block.
struct RagpulseReader::Piece {
  std::uint64_t id = 0;
  std::uint32_t list = 0;
  std::uint32_t begin = 0;
  std::uint32_t length = 0;
  bool operator==(const Piece&) const = default;

  struct Hash {
    std::size_t operator()(const Piece& piece) const {
      std::uint64_t x = piece.id * 0x9e3779b97f4a7c15ULL + piece.list;
      x = (x ^ (x >> 31)) * 0xd6e8feb86659fd93ULL +
          (std::uint64_t{piece.begin} << 32 | piece.length);
      x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
      return static_cast<std::size_t>(x ^ (x >> 32));
    }
  };
};

// Numbers blocks by content: equal sequences of pieces have equal numbers, others have not. A
// sequence is numbered as a path of pairs, so nothing rests on a hash being without collisions.
class RagpulseReader::Cutter {
 public:
  explicit Cutter(std::uint32_t block_tokens) : block_tokens_(block_tokens) {}

  std::span<const std::uint64_t> ids() const { return ids_; }
  std::uint64_t memory_bytes() const {
    return (pieces_.size() + contents_.size()) * kMapEntryBytes + ids_.capacity() * sizeof(ids_[0]);
  }
  void Begin() {
    ids_.clear();
    content_ = 0;
    filled_ = 0;
  }
  void Add(const Chunk& chunk, std::uint32_t tokens) {
    for (std::uint32_t begin = 0; begin < tokens;) {
      const std::uint32_t length = std::min(tokens - begin, block_tokens_ - filled_);
      const Piece piece{chunk.id, static_cast<std::uint32_t>(chunk.list), begin, length};
      const auto number = static_cast<std::uint32_t>(pieces_.size());
      Extend(pieces_.try_emplace(piece, number).first->second);
      begin += length;
      filled_ += length;
      if (filled_ == block_tokens_) {
        Cut();
      }
    }
  }
  void End() {
    if (filled_ > 0) {
      Cut();
    }
  }

 private:
  struct Pair {
    std::uint64_t content = 0;
    std::uint64_t piece = 0;
    bool operator==(const Pair&) const = default;
    struct Hash {
      std::size_t operator()(const Pair& pair) const {
        std::uint64_t x = pair.content * 0x9e3779b97f4a7c15ULL + pair.piece;
        x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
        return static_cast<std::size_t>(x ^ (x >> 32));
      }
    };
  };

  void Extend(std::uint32_t piece) {
    const std::uint64_t next = contents_.size() + 1;  // 0 is the empty content.
    content_ = contents_.try_emplace({content_, piece}, next).first->second;
  }
  void Cut() {
    ids_.push_back(content_);
    content_ = 0;
    filled_ = 0;
  }

  std::uint32_t block_tokens_;
  std::unordered_map<Piece, std::uint32_t, Piece::Hash> pieces_;
  std::unordered_map<Pair, std::uint64_t, Pair::Hash> contents_;
  std::vector<std::uint64_t> ids_;
  std::uint64_t content_ = 0;
  std::uint32_t filled_ = 0;
};

RagpulseReader::FileKind RagpulseReader::Recognize(std::string_view start) {
  const std::string_view line = start.substr(0, start.find('\n'));
  if (line.find("\"token_length\"") != std::string_view::npos) {
    return FileKind::kLengths;
  }
  const bool is_trace = line.find("\"hash_ids\"") != std::string_view::npos &&
                        line.find("\"passages_ids\"") != std::string_view::npos;
  return is_trace ? FileKind::kTrace : FileKind::kNone;
}

RagpulseReader::RagpulseReader(ReadContext& context)
    : context_(context),
      block_tokens_(context.options().block_tokens != 0 ? context.options().block_tokens
                                                        : kDefaultBlockTokens),
      json_(std::make_unique<Json>()) {}

RagpulseReader::~RagpulseReader() = default;

Status RagpulseReader::ReadTraceFile(ByteStream& stream) {
  has_trace_ = true;
  LineReader lines(stream);
  TextLine line;
  while (true) {
    KVFERRY_ASSIGN_OR_RETURN(const bool has_line, lines.Next(line));
    if (!has_line) {
      return Status::Ok();
    }
    Request request{.line = line.number, .session = {}, .chunks_begin = chunks_.size()};
    const Status status = line.is_too_long
                              ? Status::Error(StatusCode::kDataLoss, "is longer than 16 MiB")
                              : DecodeRequest(line.text, request);
    if (!status.ok()) {
      chunks_.resize(request.chunks_begin);
      KVFERRY_RETURN_IF_ERROR(context_.BadLine("line", line.number, status));
      continue;
    }
    request.chunks_count = chunks_.size() - request.chunks_begin;
    KVFERRY_RETURN_IF_ERROR(context_.HoldBytes(sizeof(Request) + request.session.size() +
                                               request.chunks_count * sizeof(Chunk)));
    requests_.push_back(std::move(request));
  }
}

Status RagpulseReader::DecodeRequest(std::string_view text, Request& request) {
  bool has_time = false;
  bool has_output = false;
  std::array<std::optional<std::vector<std::uint64_t>>, kLists> lists;
  const auto take_list = [&](std::string_view name, ondemand::value value) -> Status {
    const std::optional<std::size_t> list = Find(kListNames, name);
    if (!list.has_value()) {
      return WalkValue(value, 1);
    }
    return ReadIds(value, "hash_ids." + std::string(name), lists[*list].emplace());
  };
  const auto take = [&](std::string_view key, ondemand::value value) -> Status {
    if (key == "timestamp") {
      has_time = true;
      ondemand::json_type type{};
      KVFERRY_RETURN_IF_JSON_ERROR(value.type().get(type));
      std::string_view seconds = TokenOf(value);
      if (type == ondemand::json_type::string) {
        KVFERRY_RETURN_IF_JSON_ERROR(value.get_string().get(seconds));
      }
      const std::optional<std::int64_t> time_ms = ParseDecimal(seconds, kMsDigits);
      if (!time_ms.has_value() || *time_ms > kTimeMsMax || *time_ms < -kTimeMsMax) {
        return BadField(key, "is no number of seconds within 146 years");
      }
      request.time_ms = *time_ms;
      return Status::Ok();
    }
    if (key == "output_length") {
      has_output = true;
      KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t tokens, ReadUnsigned(key, value, UINT32_MAX));
      request.output_tokens = static_cast<std::uint32_t>(tokens);
      return Status::Ok();
    }
    if (key == "session_id") {
      KVFERRY_ASSIGN_OR_RETURN(request.session, ReadString(key, value));
      return Status::Ok();
    }
    if (key != "hash_ids") {
      return WalkValue(value, 1);
    }
    ondemand::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) {
      return BadField(key, "is no object of five lists");
    }
    for (auto element : object) {
      ondemand::field field;
      KVFERRY_RETURN_IF_JSON_ERROR(std::move(element).get(field));
      std::string_view name;
      KVFERRY_RETURN_IF_JSON_ERROR(field.unescaped_key().get(name));
      KVFERRY_RETURN_IF_ERROR(take_list(name, field.value()));
    }
    return Status::Ok();
  };
  KVFERRY_RETURN_IF_ERROR(ForEachField(json_->parser, text, take));
  if (!has_time || !has_output) {
    return BadField(has_time ? "output_length" : "timestamp", "is missing");
  }
  for (std::size_t list = 0; list < kLists; ++list) {
    if (!lists[list].has_value()) {
      return BadField("hash_ids." + std::string(kListNames[list]), "is missing");
    }
    for (const std::uint64_t id : *lists[list]) {
      chunks_.push_back({id, list});
    }
  }
  return Status::Ok();
}

Status RagpulseReader::ReadLengths(ByteStream& stream) {
  LineReader lines(stream);
  TextLine line;
  while (true) {
    KVFERRY_ASSIGN_OR_RETURN(const bool has_line, lines.Next(line));
    if (!has_line) {
      return Status::Ok();
    }
    const Status status = line.is_too_long
                              ? Status::Error(StatusCode::kDataLoss, "is longer than 16 MiB")
                              : DecodeLength(line.text);
    if (!status.ok()) {
      KVFERRY_RETURN_IF_ERROR(context_.BadLine("line", line.number, status));
      continue;
    }
    KVFERRY_RETURN_IF_ERROR(context_.HoldBytes(kMapEntryBytes));
  }
}

Status RagpulseReader::DecodeLength(std::string_view text) {
  std::optional<std::uint64_t> id;
  std::optional<std::uint64_t> tokens;
  std::size_t list = 0;
  const auto take = [&](std::string_view key, ondemand::value value) -> Status {
    if (const std::optional<std::size_t> found = Find(kIdNames, key); found.has_value()) {
      list = *found;
      KVFERRY_ASSIGN_OR_RETURN(id, ReadUnsigned(key, value, UINT64_MAX));
      return Status::Ok();
    }
    if (key == "token_length") {
      KVFERRY_ASSIGN_OR_RETURN(tokens, ReadUnsigned(key, value, UINT32_MAX));
      return Status::Ok();
    }
    return WalkValue(value, 1);
  };
  KVFERRY_RETURN_IF_ERROR(ForEachField(json_->parser, text, take));
  if (!id.has_value() || !tokens.has_value()) {
    return BadField(id.has_value() ? "token_length" : "passage_id\" or another chunk's \"..._id",
                    "is missing");
  }
  const auto length = static_cast<std::uint32_t>(*tokens);
  const auto [entry, is_new] = lengths_[list].try_emplace(*id, length);
  if (!is_new && entry->second != length) {
    return BadField("token_length", "is another one than before for chunk " + std::to_string(*id) +
                                        ", " + std::to_string(entry->second));
  }
  return Status::Ok();
}

Result<FileFacts> RagpulseReader::AddRequests() {
  if (!has_trace_) {
    return Status::Error(StatusCode::kDataLoss, "holds chunk lengths but no RAGPulse trace file");
  }
  context_.BeginStream(
      {.scope = context_.NewFileScope(), .ids_are_single = true, .sorts_by_time = true});
  Cutter cutter(block_tokens_);
  bool has_sessions = false;
  for (const Request& request : requests_) {
    KVFERRY_RETURN_IF_ERROR(AddRequest(request, cutter));
    has_sessions = has_sessions || !request.session.empty();
  }
  return FileFacts{
      .format = "ragpulse", .block_tokens = block_tokens_, .has_sessions = has_sessions};
}

Status RagpulseReader::AddRequest(const Request& request, Cutter& cutter) {
  const std::span<const Chunk> chunks =
      std::span(chunks_).subspan(request.chunks_begin, request.chunks_count);
  std::uint64_t tokens = 0;
  for (const Chunk& chunk : chunks) {
    const auto length = lengths_[chunk.list].find(chunk.id);
    if (length == lengths_[chunk.list].end()) {
      return context_.BadLine(
          "line", request.line,
          BadField(
              "hash_ids." + std::string(kListNames[chunk.list]),
              "names chunk " + std::to_string(chunk.id) +
                  ", whose length is in none of the files 1_ to 5_ (give the folder or archive "
                  "that holds them all)"));
    }
    tokens += length->second;
  }
  if (tokens > UINT32_MAX) {
    return context_.BadLine("line", request.line,
                            BadField("hash_ids", "has more than 4294967295 tokens"));
  }
  KVFERRY_RETURN_IF_ERROR(
      context_.CheckRoom(cutter.memory_bytes() + tokens / block_tokens_ * kMapEntryBytes * 2));
  cutter.Begin();
  for (const Chunk& chunk : chunks) {
    cutter.Add(chunk, lengths_[chunk.list].find(chunk.id)->second);
  }
  cutter.End();
  return context_.Add({.time_ms = request.time_ms,
                       .input_tokens = static_cast<std::uint32_t>(tokens),
                       .output_tokens = request.output_tokens,
                       .session = request.session,
                       .ids = cutter.ids()});
}

}  // namespace kvferry::replay
