// JSON numbers as traces use them: integers with a reason when they are none, exact decimal times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvferry::replay {

// Whether `token` is one number by the grammar of RFC 8259.
bool IsJsonNumber(std::string_view token);

// An integer within 64 unsigned bits, or why `token` (one JSON value) is none: "is negative" and so
// on, to follow the field's name.
struct IntegerOrReason {
  std::uint64_t value = 0;
  std::string_view reason;  // Empty: value holds.
};
IntegerOrReason ParseUnsigned(std::string_view token);

// `token` (a JSON number) times 10^decimals, cut to a whole number towards zero; exact, without
// floating point in between. Nothing when `token` is no number or the result is beyond +-2^62.
std::optional<std::int64_t> ParseDecimal(std::string_view token, int decimals);

// Appends the integers of a JSON array whose '[' is at `text`'s front to `ids`. The position behind
// its ']', or null where the text is no array of plain integers below 2^64 (then `ids` holds an
// unspecified part of it). Reads up to 8 bytes behind `text`, the first of which must be no digit.
const char* ScanIntegerArray(std::string_view text, std::vector<std::uint64_t>& ids);

}  // namespace kvferry::replay
