// Comma-separated fields and calendar dates.
#include "replay/readers/azure_reader.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string>
#include <vector>

#include "replay/readers/json_number.h"
#include "replay/readers/line_reader.h"
#include "replay/readers/trace_line.h"

namespace kvferry::replay {
namespace {

constexpr std::string_view kNames[] = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"};
constexpr std::int64_t kMinuteMs = 60'000;

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

// The fields of a line, without the white space and the quotes around them.
std::vector<std::string_view> Split(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    std::string_view field = line.substr(0, comma);
    field.remove_prefix(std::min(field.find_first_not_of(" \t"), field.size()));
    field = field.substr(0, field.find_last_not_of(" \t") + 1);
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') {
      field = field.substr(1, field.size() - 2);
    }
    fields.push_back(field);
    if (comma == std::string_view::npos) {
      return fields;
    }
    line.remove_prefix(comma + 1);
  }
}

// Takes `digits` digits and, where it is not 0, the mark behind them from the front of `text`.
std::optional<int> TakeNumber(std::string_view& text, std::size_t digits, char mark) {
  if (text.size() < digits + (mark != '\0' ? 1 : 0)) {
    return std::nullopt;
  }
  int value = 0;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    value = value * 10 + (c - '0');
  }
  if (mark != '\0' && text[digits] != mark) {
    return std::nullopt;
  }
  text.remove_prefix(digits + (mark != '\0' ? 1 : 0));
  return value;
}

// Minutes that a zone is ahead; the whole of `text` must be one, or empty.
std::optional<int> ParseZone(std::string_view text) {
  if (text.empty() || text == "Z") {
    return 0;
  }
  const bool is_behind = text.front() == '-';
  if (!is_behind && text.front() != '+') {
    return std::nullopt;
  }
  text.remove_prefix(1);
  const std::optional<int> hours = TakeNumber(text, 2, ':');
  const std::optional<int> minutes = TakeNumber(text, 2, '\0');
  if (!hours.has_value() || !minutes.has_value() || !text.empty() || *hours > 14 || *minutes > 59) {
    return std::nullopt;
  }
  const int ahead = *hours * 60 + *minutes;
  return is_behind ? -ahead : ahead;
}

}  // namespace

bool IsAzureHeader(std::string_view line) {
  constexpr std::size_t kHeaderBytesMax = 4096;
  line = line.substr(0, line.find_last_not_of('\r') + 1);
  if (line.size() > kHeaderBytesMax) {
    return false;
  }
  const std::vector<std::string_view> fields = Split(line);
  return std::all_of(std::begin(kNames), std::end(kNames), [&](std::string_view name) {
    return std::any_of(fields.begin(), fields.end(),
                       [&](std::string_view field) { return EqualsIgnoringCase(field, name); });
  });
}

std::optional<std::int64_t> ParseTimestamp(std::string_view text) {
  const std::optional<int> year = TakeNumber(text, 4, '-');
  const std::optional<int> month = TakeNumber(text, 2, '-');
  const char mark = text.size() > 2 && text[2] == 'T' ? 'T' : ' ';
  const std::optional<int> day = TakeNumber(text, 2, mark);
  const std::optional<int> hour = TakeNumber(text, 2, ':');
  const std::optional<int> minute = TakeNumber(text, 2, ':');
  const std::optional<int> second = TakeNumber(text, 2, '\0');
  if (!year.has_value() || !month.has_value() || !day.has_value() || !hour.has_value() ||
      !minute.has_value() || !second.has_value()) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *year < 1900 || *hour > 23 || *minute > 59 || *second > 60) {
    return std::nullopt;
  }
  std::int64_t fraction_ms = 0;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < 3; ++i) {
      fraction_ms = fraction_ms * 10 + (i < digits ? text[i] - '0' : 0);
    }
    text.remove_prefix(digits);
  }
  const std::optional<int> ahead = ParseZone(text);
  if (!ahead.has_value()) {
    return std::nullopt;
  }
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t minutes = (days * 24 + *hour) * 60 + *minute - *ahead;
  const std::int64_t time_ms = minutes * kMinuteMs + *second * std::int64_t{1000} + fraction_ms;
  return time_ms <= kTimeMsMax && time_ms >= -kTimeMsMax ? std::optional(time_ms) : std::nullopt;
}

Result<FileFacts> AzureReader::Read(ByteStream& stream) {
  LineReader lines(stream);
  TextLine line;
  bool has_header = false;
  while (!context_.is_satisfied()) {
    KVFERRY_ASSIGN_OR_RETURN(const bool has_line, lines.Next(line));
    if (!has_line) {
      break;
    }
    if (!has_header) {
      KVFERRY_RETURN_IF_ERROR(
          ReadHeader(line.text).WithContext("line " + std::to_string(line.number)));
      has_header = true;
      continue;
    }
    const Result<RawRequest> request =
        line.is_too_long ? Status::Error(StatusCode::kDataLoss, "is longer than 16 MiB")
                         : Decode(line.text);
    KVFERRY_RETURN_IF_ERROR(request.ok() ? context_.Add(*request)
                                         : context_.BadLine("line", line.number, request.error()));
  }
  return FileFacts{.format = "azure", .has_blocks = false};
}

Status AzureReader::ReadHeader(std::string_view line) {
  const std::vector<std::string_view> fields = Split(line);
  for (std::size_t column = 0; column < kColumns; ++column) {
    const auto found = std::find_if(fields.begin(), fields.end(), [&](std::string_view field) {
      return EqualsIgnoringCase(field, kNames[column]);
    });
    if (found == fields.end()) {
      return BadField(kNames[column], "is missing in the header");
    }
    columns_[column] = static_cast<std::size_t>(found - fields.begin());
  }
  return Status::Ok();
}

Result<RawRequest> AzureReader::Decode(std::string_view line) const {
  const std::vector<std::string_view> fields = Split(line);
  std::array<std::string_view, kColumns> values;
  for (std::size_t column = 0; column < kColumns; ++column) {
    if (columns_[column] >= fields.size()) {
      return BadField(kNames[column], "is missing");
    }
    values[column] = fields[columns_[column]];
  }
  RawRequest request;
  const std::optional<std::int64_t> time_ms = ParseTimestamp(values[0]);
  if (!time_ms.has_value()) {
    return BadField(kNames[0], "is no date and time");
  }
  request.time_ms = *time_ms;
  for (std::size_t column = 1; column < kColumns; ++column) {
    const IntegerOrReason tokens = ParseUnsigned(values[column]);
    if (!tokens.reason.empty() || tokens.value > UINT32_MAX) {
      return BadField(kNames[column],
                      tokens.reason.empty() ? "is above 4294967295" : tokens.reason);
    }
    (column == 1 ? request.input_tokens : request.output_tokens) =
        static_cast<std::uint32_t>(tokens.value);
  }
  return request;
}

}  // namespace kvferry::replay
