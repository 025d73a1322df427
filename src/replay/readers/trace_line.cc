// The direct scanner of plain lines, and simdjson for all others.
#include "replay/readers/trace_line.h"

#include <algorithm>
#include <optional>

#include "replay/readers/json_number.h"
#include "replay/readers/json_walk.h"

namespace kvferry::replay {
namespace {

constexpr std::string_view kIdsField = "hash_ids";
constexpr auto kFieldCount = static_cast<std::size_t>(LineField::kCount);
constexpr std::array<std::string_view, kFieldCount> kFieldNames = {
    "timestamp",  "delay",      "input_length", "output_length",
    "block_size", "session_id", "chat_id",      "parent_chat_id",
};

std::optional<std::size_t> FindField(std::string_view name) {
  const auto* found = std::find(kFieldNames.begin(), kFieldNames.end(), name);
  if (found == kFieldNames.end()) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(found - kFieldNames.begin());
}

void Clear(TraceLine& line) {
  line.values.fill({});
  line.is_string.fill(false);
  line.has_ids = false;
  line.ids.clear();
}

// Scans one plain line. Every answer but "this is plain and valid" is left to simdjson.
class PlainScanner {
 public:
  explicit PlainScanner(std::string_view text) : p_(text.data()), end_(p_ + text.size()) {}

  bool Scan(TraceLine& line) {
    if (!Take('{')) {
      return false;
    }
    while (true) {
      std::string_view name;
      if (!ScanString(name) || !Take(':') || !ScanValue(name, line)) {
        return false;
      }
      if (Take(',')) {
        continue;
      }
      if (!Take('}')) {
        return false;
      }
      PassSpaces();
      return p_ == end_;
    }
  }

 private:
  void PassSpaces() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\t' || *p_ == '\r')) {
      ++p_;
    }
  }
  bool Take(char c) {
    PassSpaces();
    if (p_ == end_ || *p_ != c) {
      return false;
    }
    ++p_;
    return true;
  }
  // A string of printable ASCII without escapes.
  bool ScanString(std::string_view& text) {
    if (!Take('"')) {
      return false;
    }
    const char* const begin = p_;
    while (p_ < end_ && *p_ >= ' ' && *p_ != '"' && *p_ != '\\' && *p_ != 0x7f) {
      ++p_;
    }
    if (p_ == end_ || *p_ != '"') {
      return false;
    }
    text = std::string_view(begin, static_cast<std::size_t>(p_ - begin));
    ++p_;
    return true;
  }
  bool ScanNumber(std::string_view& text) {
    const char* const begin = p_;
    while (p_ < end_ && ((*p_ >= '0' && *p_ <= '9') || *p_ == '-' || *p_ == '.' || *p_ == '+' ||
                         *p_ == 'e' || *p_ == 'E')) {
      ++p_;
    }
    text = std::string_view(begin, static_cast<std::size_t>(p_ - begin));
    return IsJsonNumber(text);
  }
  bool ScanValue(std::string_view name, TraceLine& line) {
    PassSpaces();
    if (p_ == end_) {
      return false;
    }
    if (*p_ == '[') {
      if (name != kIdsField || line.has_ids) {
        return false;
      }
      line.has_ids = true;
      p_ = ScanIntegerArray(std::string_view(p_, static_cast<std::size_t>(end_ - p_)), line.ids);
      return p_ != nullptr;
    }
    const bool is_string = *p_ == '"';
    std::string_view value;
    if (name == kIdsField || !(is_string ? ScanString(value) : ScanNumber(value))) {
      return false;
    }
    const std::optional<std::size_t> field = FindField(name);
    if (field.has_value()) {
      if (line.values[*field].data() != nullptr) {
        return false;
      }
      line.values[*field] = value;
      line.is_string[*field] = is_string;
    }
    return true;
  }

  const char* p_;
  const char* end_;
};

Status StoreScalar(ondemand::value value, std::size_t index, TraceLine& line) {
  if (line.values[index].data() != nullptr) {
    return BadField(kFieldNames[index], "stands twice");
  }
  ondemand::json_type type{};
  KVFERRY_RETURN_IF_JSON_ERROR(value.type().get(type));
  if (type == ondemand::json_type::string) {
    line.is_string[index] = true;
    return JsonStatus(value.get_string().get(line.values[index]));
  }
  const std::string_view token = TokenOf(value);
  KVFERRY_RETURN_IF_ERROR(WalkValue(value, 1));
  const bool is_session = index == static_cast<std::size_t>(LineField::kSessionId);
  if (type != ondemand::json_type::null || !is_session) {
    line.values[index] = token;
  }
  return Status::Ok();
}

}  // namespace

struct TraceLineParser::Json {
  ondemand::parser parser;
};

std::string_view FieldName(LineField field) {
  return kFieldNames[static_cast<std::size_t>(field)];
}

Status BadField(std::string_view name, std::string_view reason) {
  return Status::Error(StatusCode::kDataLoss,
                       "field \"" + std::string(name) + "\" " + std::string(reason));
}

Result<std::uint64_t> ReadInteger(const TraceLine& line, LineField field, std::uint64_t max) {
  const auto index = static_cast<std::size_t>(field);
  if (!line.has(field)) {
    return BadField(kFieldNames[index], "is missing");
  }
  if (line.is_string[index]) {
    return BadField(kFieldNames[index], "is a string where an integer belongs");
  }
  const IntegerOrReason parsed = ParseUnsigned(line.values[index]);
  if (!parsed.reason.empty()) {
    return BadField(kFieldNames[index], parsed.reason);
  }
  if (parsed.value > max) {
    return BadField(kFieldNames[index], "is above " + std::to_string(max));
  }
  return parsed.value;
}

Result<std::int64_t> ReadTime(const TraceLine& line, LineField field, int decimals) {
  const auto index = static_cast<std::size_t>(field);
  if (!line.has(field)) {
    return BadField(kFieldNames[index], "is missing");
  }
  if (line.is_string[index]) {
    return BadField(kFieldNames[index], "is a string where a number belongs");
  }
  if (!IsJsonNumber(line.values[index])) {
    return BadField(kFieldNames[index], "is no number");
  }
  const std::optional<std::int64_t> time = ParseDecimal(line.values[index], decimals);
  if (!time.has_value() || *time > kTimeMsMax || *time < -kTimeMsMax) {
    return BadField(kFieldNames[index], "is more than 146 years from zero");
  }
  return *time;
}

TraceLineParser::TraceLineParser() : json_(std::make_unique<Json>()) {}
TraceLineParser::~TraceLineParser() = default;

Status TraceLineParser::Parse(std::string_view text, TraceLine& line) {
  Clear(line);
  if (PlainScanner(text).Scan(line)) {
    return Status::Ok();
  }
  return ParseSlowly(text, line);
}

Status TraceLineParser::ParseSlowly(std::string_view text, TraceLine& line) {
  Clear(line);
  KVFERRY_RETURN_IF_ERROR(CheckNoNul(text));
  const simdjson::padded_string_view padded(text.data(), text.size(),
                                            text.size() + simdjson::SIMDJSON_PADDING);
  ondemand::document document;
  KVFERRY_RETURN_IF_JSON_ERROR(json_->parser.iterate(padded).get(document));
  ondemand::object object;
  if (document.get_object().get(object) != simdjson::SUCCESS) {
    return Status::Error(StatusCode::kDataLoss, "is no JSON object");
  }
  for (auto element : object) {
    ondemand::field field;
    KVFERRY_RETURN_IF_JSON_ERROR(std::move(element).get(field));
    std::string_view name;
    KVFERRY_RETURN_IF_JSON_ERROR(field.unescaped_key().get(name));
    if (name == kIdsField) {
      if (line.has_ids) {
        return BadField(kIdsField, "stands twice");
      }
      line.has_ids = true;
      KVFERRY_RETURN_IF_ERROR(ReadIds(field.value(), kIdsField, line.ids));
      continue;
    }
    const std::optional<std::size_t> index = FindField(name);
    KVFERRY_RETURN_IF_ERROR(index.has_value() ? StoreScalar(field.value(), *index, line)
                                              : WalkValue(field.value(), 1));
  }
  return CheckAtEnd(document);
}

}  // namespace kvferry::replay
