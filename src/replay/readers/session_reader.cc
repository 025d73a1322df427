// Decoding of a session file, then its requests in order.
#include "replay/readers/session_reader.h"

#include <cstdio>
#include <utility>

#include "base/bytes.h"
#include "replay/readers/block_size.h"
#include "replay/readers/format.h"
#include "replay/readers/json_number.h"
#include "replay/readers/json_walk.h"
#include "replay/readers/trace_line.h"

namespace kvferry::replay {
namespace {

// The largest published session has some ten MiB; parsing takes about ten times the text.
constexpr std::size_t kSessionBytesMax = std::size_t{256} << 20;
constexpr std::uint64_t kParseFactor = 10;
constexpr int kAgentDepthMax = 8;
constexpr int kMsDigits = 3;

}  // namespace

struct SessionReader::Json {
  ondemand::parser parser;
};

// Fills the reader's members from a document. A Status returned is about JSON as such and ends the
// file; what is wrong with a request's fields is noted in the request.
class SessionReader::Decoder {
 public:
  explicit Decoder(SessionReader& reader) : reader_(reader) {}

  Status DecodeSession(ondemand::object session) {
    bool has_requests = false;
    for (auto element : session) {
      ondemand::field field;
      KVFERRY_RETURN_IF_JSON_ERROR(std::move(element).get(field));
      std::string_view key;
      KVFERRY_RETURN_IF_JSON_ERROR(field.unescaped_key().get(key));
      ondemand::value value = field.value();
      if (key == "requests") {
        if (has_requests) {
          return BadField(key, "stands twice");
        }
        has_requests = true;
        KVFERRY_RETURN_IF_ERROR(DecodeRequests(value, 0, 0));
      } else if (key == "id" || key == "hash_id_scope") {
        KVFERRY_RETURN_IF_ERROR(DecodeText(key, value));
      } else if (key == "block_size") {
        const IntegerOrReason size = ParseUnsigned(TokenOf(value));
        if (!size.reason.empty() || size.value == 0 || size.value > UINT32_MAX) {
          return BadField(key, size.reason.empty() ? "is no block size" : size.reason);
        }
        reader_.own_block_tokens_ = size.value;
      } else {
        KVFERRY_RETURN_IF_ERROR(WalkValue(value, 1));
      }
    }
    return has_requests ? Status::Ok() : BadField("requests", "is missing");
  }

 private:
  Status DecodeText(std::string_view key, ondemand::value value) {
    ondemand::json_type type{};
    KVFERRY_RETURN_IF_JSON_ERROR(value.type().get(type));
    if (type != ondemand::json_type::string) {
      return BadField(key, "is no string");
    }
    std::string_view text;
    KVFERRY_RETURN_IF_JSON_ERROR(value.get_string().get(text));
    if (key == "id") {
      reader_.id_ = text;
    } else {
      reader_.ids_are_global_ = text == "global";
    }
    return Status::Ok();
  }

  Status DecodeRequests(ondemand::value value, std::uint32_t agent, int depth) {
    if (depth > kAgentDepthMax) {
      return Status::Error(StatusCode::kDataLoss, "sub-agents are nested too deep");
    }
    ondemand::json_type type{};
    KVFERRY_RETURN_IF_JSON_ERROR(value.type().get(type));
    if (type != ondemand::json_type::array) {
      return BadField("requests", "is no list");
    }
    ondemand::array array;
    KVFERRY_RETURN_IF_JSON_ERROR(value.get_array().get(array));
    for (auto element : array) {
      ondemand::value entry;
      KVFERRY_RETURN_IF_JSON_ERROR(std::move(element).get(entry));
      KVFERRY_RETURN_IF_ERROR(DecodeEntry(entry, agent, depth));
    }
    return Status::Ok();
  }

  Status DecodeEntry(ondemand::value value, std::uint32_t agent, int depth) {
    Request request{.number = ++reader_.entries_, .agent = agent, .ids_begin = reader_.ids_.size()};
    seen_ = 0;
    ondemand::json_type type{};
    KVFERRY_RETURN_IF_JSON_ERROR(value.type().get(type));
    if (type != ondemand::json_type::object) {
      KVFERRY_RETURN_IF_ERROR(WalkValue(value, 1));
      request.problem = Status::Error(StatusCode::kDataLoss, "is no JSON object");
      reader_.requests_.push_back(std::move(request));
      return Status::Ok();
    }
    const std::size_t first_of_agent = reader_.requests_.size();
    bool is_agent = false;
    ondemand::object object;
    KVFERRY_RETURN_IF_JSON_ERROR(value.get_object().get(object));
    for (auto element : object) {
      ondemand::field field;
      KVFERRY_RETURN_IF_JSON_ERROR(std::move(element).get(field));
      std::string_view key;
      KVFERRY_RETURN_IF_JSON_ERROR(field.unescaped_key().get(key));
      if (key == "requests" && !is_agent) {
        is_agent = true;
        const unsigned seen = seen_;
        KVFERRY_RETURN_IF_ERROR(DecodeRequests(field.value(), ++reader_.agents_, depth + 1));
        seen_ = seen;
        continue;
      }
      KVFERRY_RETURN_IF_ERROR(DecodeField(key, field.value(), request));
    }
    if (!is_agent) {
      CheckComplete(request);
      reader_.requests_.push_back(std::move(request));
      return Status::Ok();
    }
    if ((seen_ & kTime) == 0 && request.problem.ok()) {
      request.problem = BadField("t", "is missing in a sub-agent");
    }
    return ShiftAgent(first_of_agent, std::move(request));
  }

  // A sub-agent's times count from its entry's; without that they mean nothing.
  Status ShiftAgent(std::size_t first, Request entry) {
    if (!entry.problem.ok()) {
      reader_.requests_.resize(first);
      reader_.requests_.push_back(std::move(entry));
      return Status::Ok();
    }
    for (std::size_t i = first; i < reader_.requests_.size(); ++i) {
      reader_.requests_[i].time_ms += entry.time_ms;
    }
    return Status::Ok();
  }

  Status DecodeField(std::string_view key, ondemand::value value, Request& request) {
    const unsigned field = key == "t"          ? kTime
                           : key == "in"       ? kInput
                           : key == "out"      ? kOutput
                           : key == "hash_ids" ? kIds
                                               : 0U;
    if (field == 0) {
      return WalkValue(value, 1);
    }
    if ((seen_ & field) != 0) {
      Note(request, BadField(key, "stands twice"));
      return WalkValue(value, 1);
    }
    seen_ |= field;
    if (field == kIds) {
      const IdsStatus ids = ReadIdsOrProblem(value, key, reader_.ids_);
      KVFERRY_RETURN_IF_ERROR(ids.json);
      Note(request, ids.problem);
      request.ids_count = reader_.ids_.size() - request.ids_begin;
      return Status::Ok();
    }
    const std::string_view token = TokenOf(value);
    KVFERRY_RETURN_IF_ERROR(WalkValue(value, 1));
    if (field == kTime) {
      const std::optional<std::int64_t> time_ms = ParseDecimal(token, kMsDigits);
      if (!time_ms.has_value() || *time_ms < 0 || *time_ms > kTimeMsMax) {
        Note(request, BadField(key, "is no number of seconds from 0 to 146 years"));
      } else {
        request.time_ms = *time_ms;
      }
      return Status::Ok();
    }
    const IntegerOrReason tokens = ParseUnsigned(token);
    if (!tokens.reason.empty() || tokens.value > UINT32_MAX) {
      Note(request, BadField(key, tokens.reason.empty() ? "is above 4294967295" : tokens.reason));
    }
    (field == kInput ? request.input_tokens : request.output_tokens) = tokens.value;
    return Status::Ok();
  }

  void CheckComplete(Request& request) const {
    constexpr std::pair<unsigned, std::string_view> kNeeded[] = {
        {kTime, "t"}, {kInput, "in"}, {kOutput, "out"}, {kIds, "hash_ids"}};
    for (const auto& [field, name] : kNeeded) {
      if ((seen_ & field) == 0) {
        Note(request, BadField(name, "is missing"));
      }
    }
  }

  static void Note(Request& request, const Status& problem) {
    if (request.problem.ok()) {
      request.problem = problem;
    }
  }

  static constexpr unsigned kTime = 1;
  static constexpr unsigned kInput = 2;
  static constexpr unsigned kOutput = 4;
  static constexpr unsigned kIds = 8;

  SessionReader& reader_;
  unsigned seen_ = 0;  // Fields of the entry at hand.
};

Status CheckIsJson(ReadContext& context, ByteStream& stream) {
  Result<PaddedText> text = ReadWhole(stream, kSessionBytesMax, simdjson::SIMDJSON_PADDING);
  if (text.status().code() == StatusCode::kResourceExhausted) {
    return Status::Ok();  // No session is so long.
  }
  KVFERRY_RETURN_IF_ERROR(text.status());
  KVFERRY_RETURN_IF_ERROR(context.CheckRoom(text->size * kParseFactor));
  const std::string_view json_text =
      WithoutMarkAndSpaces(std::string_view(text->bytes.data(), text->size));
  simdjson::dom::parser parser;
  const Status json = JsonStatus(parser.parse(json_text.data(), json_text.size(), false).error());
  return json.ok() ? json : context.BadLine("line", 1, json);
}

SessionReader::SessionReader(ReadContext& context)
    : context_(context),
      random_(context.options().seed),
      block_tokens_(context.options().block_tokens),
      json_(std::make_unique<Json>()) {
  char gap[32];
  std::snprintf(gap, sizeof(gap), "%g", context.options().session_gap_s);
  context_.AddNote(context.options().session_gap_s > 0
                       ? "session starts are drawn (Poisson process, " + std::string(gap) +
                             " s apart on average, seed " + std::to_string(context.options().seed) +
                             "); only the times inside a session are the trace's own"
                       : "all sessions start at once; only the times inside a session are the "
                         "trace's own");
}

SessionReader::~SessionReader() = default;

FileFacts SessionReader::facts() const {
  return {.format = "sessions", .block_tokens = block_tokens_, .has_sessions = true};
}

std::int64_t SessionReader::DrawStart() {
  if (has_drawn_) {
    constexpr double kMsPerSecond = 1000;
    next_start_ms_ += context_.options().session_gap_s * kMsPerSecond * random_.Exponential();
  }
  has_drawn_ = true;
  return next_start_ms_ < static_cast<double>(kTimeMsMax)
             ? static_cast<std::int64_t>(next_start_ms_)
             : kTimeMsMax;
}

Status SessionReader::ReadSession(ByteStream& stream) {
  id_.clear();
  own_block_tokens_ = 0;
  ids_are_global_ = false;
  entries_ = 0;
  agents_ = 0;
  requests_.clear();
  ids_.clear();
  KVFERRY_ASSIGN_OR_RETURN(const PaddedText text,
                           ReadWhole(stream, kSessionBytesMax, simdjson::SIMDJSON_PADDING));
  KVFERRY_RETURN_IF_ERROR(context_.CheckRoom(text.size * kParseFactor));
  std::string_view json(text.bytes.data(), text.size);
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  json.remove_prefix(json.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  Status decoded = CheckNoNul(json);
  if (decoded.ok()) {
    ondemand::document document;
    decoded =
        JsonStatus(json_->parser
                       .iterate(simdjson::padded_string_view(
                           json.data(), json.size(), json.size() + simdjson::SIMDJSON_PADDING))
                       .get(document));
    ondemand::object session;
    if (decoded.ok() && document.get_object().get(session) != simdjson::SUCCESS) {
      decoded = Status::Error(StatusCode::kDataLoss, "is no JSON object");
    }
    if (decoded.ok()) {
      decoded = Decoder(*this).DecodeSession(session);
    }
    if (decoded.ok()) {
      decoded = CheckAtEnd(document);
    }
  }
  if (!decoded.ok()) {
    // One line, as far as counting goes: nothing behind the fault can be trusted.
    return context_.BadLine("line", 1, decoded);
  }
  return AddSession();
}

std::uint32_t SessionReader::InferBlockSize() const {
  BlockSizeVote vote;
  for (const Request& request : requests_) {
    if (request.problem.ok()) {
      vote.Add(request.input_tokens, request.ids_count);
    }
  }
  if (!vote.Decide()) {
    return 0;
  }
  for (const Request& request : requests_) {
    if (request.problem.ok()) {
      (void)vote.Narrow(request.input_tokens, request.ids_count);
    }
  }
  return block_tokens_ != 0 && vote.IsCandidate(block_tokens_) ? block_tokens_ : vote.winner();
}

Status SessionReader::ChooseBlockSize() {
  if (context_.options().block_tokens != 0) {
    return Status::Ok();
  }
  const std::uint64_t size = own_block_tokens_ != 0 ? own_block_tokens_ : InferBlockSize();
  if (size == 0) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "no block_size in it, and its requests do not tell it; say it by "
                         "--block-tokens N");
  }
  if (block_tokens_ != 0 && size != block_tokens_) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "has blocks of " + std::to_string(size) +
                             " tokens, and the sessions before it of " +
                             std::to_string(block_tokens_) + ": read them apart");
  }
  block_tokens_ = static_cast<std::uint32_t>(size);
  return Status::Ok();
}

Status SessionReader::AddSession() {
  KVFERRY_RETURN_IF_ERROR(ChooseBlockSize());
  if (ids_are_global_ && !has_shared_scope_) {
    shared_scope_ = context_.NewFileScope();
    has_shared_scope_ = true;
  }
  const std::int64_t start_ms = DrawStart();
  context_.BeginStream({.scope = ids_are_global_ ? shared_scope_ : context_.NewSessionScope(),
                        .sorts_by_time = true});
  for (const Request& request : requests_) {
    Status problem = request.problem;
    if (problem.ok() && !FitsBlockSize(request.input_tokens, request.ids_count, block_tokens_)) {
      problem = BadField("hash_ids", "has " + std::to_string(request.ids_count) + " ids where " +
                                         std::to_string(request.input_tokens) +
                                         " tokens have another number of blocks of " +
                                         std::to_string(block_tokens_) + " tokens");
    }
    const std::int64_t time_ms = start_ms + request.time_ms;
    if (problem.ok() && time_ms > kTimeMsMax) {
      problem = BadField("t", "is more than 146 years from zero");
    }
    if (!problem.ok()) {
      KVFERRY_RETURN_IF_ERROR(context_.BadLine("line 1, request", request.number, problem));
      continue;
    }
    // Ids that are global need not mean that session names are.
    const std::string session = (ids_are_global_ ? std::to_string(start_ms) + ":" : std::string()) +
                                id_ + "-" + std::to_string(request.agent);
    KVFERRY_RETURN_IF_ERROR(
        context_.Add({.time_ms = time_ms,
                      .input_tokens = static_cast<std::uint32_t>(request.input_tokens),
                      .output_tokens = static_cast<std::uint32_t>(request.output_tokens),
                      .session = session,
                      .ids = std::span(ids_).subspan(request.ids_begin, request.ids_count)}));
  }
  return Status::Ok();
}

}  // namespace kvferry::replay
