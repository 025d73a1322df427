// TraceLineParser: one line of a JSONL trace to its fields, as strict as a JSON parser.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

namespace kvferry::replay {

// Fields of the flat JSONL formats that readers use; all others are checked and passed over.
enum class LineField : std::uint8_t {
  kTimestamp,
  kDelay,
  kInputLength,
  kOutputLength,
  kBlockSize,
  kSessionId,
  kChatId,
  kParentChatId,
  kCount,
};

std::string_view FieldName(LineField field);

// Views are valid until the parser's next call and as long as the line.
struct TraceLine {
  // By LineField: the value as it stands in the line (strings: unescaped), empty if absent.
  std::array<std::string_view, static_cast<std::size_t>(LineField::kCount)> values{};
  std::array<bool, static_cast<std::size_t>(LineField::kCount)> is_string{};
  bool has_ids = false;
  std::vector<std::uint64_t> ids;  // Field "hash_ids".

  std::string_view value(LineField field) const { return values[static_cast<std::size_t>(field)]; }
  bool has(LineField field) const {
    const auto index = static_cast<std::size_t>(field);
    return values[index].data() != nullptr;
  }
};

// "field "NAME": REASON": why a line is bad; kDataLoss.
Status BadField(std::string_view name, std::string_view reason);

// The integer in a field, at most `max`; kDataLoss naming the field where it is missing or another
// thing.
Result<std::uint64_t> ReadInteger(const TraceLine& line, LineField field, std::uint64_t max);
// The field's decimal number times 10^decimals, cut to a whole number, within +-kTimeMsMax.
Result<std::int64_t> ReadTime(const TraceLine& line, LineField field, int decimals);

// Times lie within 146 years around zero, so that the difference of two fits in nanoseconds too.
inline constexpr std::int64_t kTimeMsMax = 4'600'000'000'000;

// Most lines are plain: a flat object of numbers, strings without escapes and integer arrays. Those
// are scanned directly; simdjson reads every other one and finds the reason where it is bad, so
// what is accepted does not depend on which of the two looked.
//
// Thread-compatible.
class TraceLineParser {
 public:
  TraceLineParser();
  ~TraceLineParser();
  TraceLineParser(const TraceLineParser&) = delete;
  TraceLineParser& operator=(const TraceLineParser&) = delete;

  // kLinePadding bytes behind `text` must be readable, the first of them no digit. kDataLoss,
  // naming field and reason, where it is no object of the right types.
  Status Parse(std::string_view text, TraceLine& line);
  // The same by simdjson alone.
  Status ParseSlowly(std::string_view text, TraceLine& line);

 private:
  struct Json;
  std::unique_ptr<Json> json_;
};

}  // namespace kvferry::replay
