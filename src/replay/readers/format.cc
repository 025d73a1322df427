// A lenient look at keys: a reader says later, and strictly, what is wrong with a line.
#include "replay/readers/format.h"

#include <algorithm>

#include "replay/read_trace.h"
#include "replay/readers/azure_reader.h"

namespace kvferry::replay {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kSeenBytes = 48;

// What stands at the beginning, printable, for a message.
std::string Seen(std::string_view start) {
  std::string text;
  for (const char c : start.substr(0, kSeenBytes)) {
    text += c >= ' ' && c < 0x7f && c != '"' ? c : '?';
  }
  return "\"" + text + (start.size() > kSeenBytes ? "\"..." : "\"");
}

bool HasKey(std::string_view line, std::string_view key) {
  const std::string quoted = "\"" + std::string(key) + "\"";
  for (std::size_t at = line.find(quoted); at != std::string_view::npos;
       at = line.find(quoted, at + 1)) {
    std::size_t behind = at + quoted.size();
    behind = std::min(line.find_first_not_of(" \t\r\n", behind), line.size());
    if (behind < line.size() && line[behind] == ':') {
      return true;
    }
  }
  return false;
}

// The first character of a key's value, or 0.
char ValueStart(std::string_view line, std::string_view key) {
  std::size_t at = line.find("\"" + std::string(key) + "\"");
  if (at == std::string_view::npos) {
    return '\0';
  }
  at = line.find_first_not_of(" \t\r\n:", at + key.size() + 2);
  return at == std::string_view::npos ? '\0' : line[at];
}

std::string_view FormatOfLine(std::string_view line) {
  if (HasKey(line, "chat_id") && HasKey(line, "parent_chat_id")) {
    return "bailian";
  }
  if (ValueStart(line, "hash_ids") == '{') {
    return "ragpulse";
  }
  if (HasKey(line, "delay") && HasKey(line, "session_id") && !HasKey(line, "timestamp")) {
    return "aiperf";
  }
  if (HasKey(line, "hash_ids") && HasKey(line, "input_length")) {
    return "mooncake";
  }
  return {};
}

}  // namespace

std::string_view WithoutMarkAndSpaces(std::string_view start) {
  start.remove_prefix(start.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  start.remove_prefix(std::min(start.find_first_not_of(" \t\r\n"), start.size()));
  return start;
}

std::string FormatNames() {
  std::string names;
  for (const TraceFormat& format : TraceFormats()) {
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  }
  return names;
}

bool IsTar(std::string_view start) {
  constexpr std::size_t kMagicOffset = 257;
  return start.size() > kMagicOffset && start.substr(kMagicOffset).starts_with("ustar");
}

bool LooksLikeSession(std::string_view start, bool is_said) {
  start = WithoutMarkAndSpaces(start);
  return start.starts_with('{') &&
         (is_said || (HasKey(start, "requests") &&
                      (HasKey(start, "hash_id_scope") || HasKey(start, "block_size"))));
}

Result<std::string_view> RecognizeFormat(std::string_view start) {
  start = WithoutMarkAndSpaces(start);
  if (start.empty()) {
    return Status::Error(StatusCode::kDataLoss,
                         "is empty: no request in it; give a file that holds some");
  }
  if (IsAzureHeader(start.substr(0, start.find('\n')))) {
    return std::string_view("azure");
  }
  if (HasKey(start, "requests") &&
      (HasKey(start, "hash_id_scope") || HasKey(start, "block_size"))) {
    return std::string_view("sessions");
  }
  std::string_view found;
  for (std::string_view rest = start; !rest.empty();) {
    const std::size_t length = std::min(rest.find('\n'), rest.size());
    const std::string_view format = FormatOfLine(rest.substr(0, length));
    // A Mooncake file with sessions and an AIPerf one differ only in later turns.
    if (format == "aiperf" || (found.empty() && !format.empty())) {
      found = format;
    }
    if (!found.empty() && found != "mooncake") {
      return found;
    }
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  if (!found.empty()) {
    return found;
  }
  return Status::Error(StatusCode::kDataLoss,
                       "is in no known format: it begins with " + Seen(start) + "; known are " +
                           FormatNames() + " (--format NAME says which, --list-formats more)");
}

}  // namespace kvferry::replay
