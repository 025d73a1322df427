// Number scanning; the array scanner takes eight bytes at a time, since ids are most of a trace.
#include "replay/readers/json_number.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kvferry::replay {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// How many of the eight bytes, first byte lowest, are digits before the first that is none.
int LeadingDigits(std::uint64_t word) {
  // A digit's high half is 3, and adding 6 to it does not carry out of the low half.
  const std::uint64_t marks =
      ((word & 0xf0f0f0f0f0f0f0f0ULL) ^ 0x3030303030303030ULL) |
      ((((word & 0x7f7f7f7f7f7f7f7fULL) + 0x0606060606060606ULL) & 0xf0f0f0f0f0f0f0f0ULL) ^
       0x3030303030303030ULL);
  return std::countr_zero(marks) / 8;
}

// The value of eight digits, first digit lowest byte.
std::uint64_t EightDigits(std::uint64_t word) {
  word -= 0x3030303030303030ULL;
  word = word * 10 + (word >> 8);
  constexpr std::uint64_t kPairs = 0x000000ff000000ffULL;
  return (((word & kPairs) * (100 + (1000000ULL << 32))) +
          (((word >> 16) & kPairs) * (1 + (10000ULL << 32)))) >>
         32;
}

// The number at `p`, or null for no digit, a leading zero, or a value of 2^64 or more.
const char* ScanUnsigned(const char* p, std::uint64_t& value) {
  std::uint64_t word = 0;
  std::memcpy(&word, p, sizeof(word));
  const int digits = LeadingDigits(word);
  if (digits < 8) [[likely]] {
    if (digits == 0 || (digits > 1 && *p == '0')) {
      return nullptr;
    }
    // Leading zeros in front make eight digits of fewer.
    const int shift = 64 - 8 * digits;
    const std::uint64_t zeros = 0x3030303030303030ULL >> (8 * digits);
    value = EightDigits((word << shift) | zeros);
    return p + digits;
  }
  if (*p == '0') {
    return nullptr;
  }
  std::uint64_t sum = EightDigits(word);
  for (p += 8; IsDigit(*p); ++p) {
    const auto digit = static_cast<std::uint64_t>(*p - '0');
    if (sum > (UINT64_MAX - digit) / 10) {
      return nullptr;
    }
    sum = sum * 10 + digit;
  }
  value = sum;
  return p;
}

}  // namespace

bool IsJsonNumber(std::string_view token) {
  std::size_t i = token.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t begin = i;
    while (i < token.size() && IsDigit(token[i])) {
      ++i;
    }
    return i - begin;
  };
  const std::size_t first = i;
  const std::size_t whole = digits();
  if (whole == 0 || (whole > 1 && token[first] == '0')) {
    return false;
  }
  if (i < token.size() && token[i] == '.') {
    ++i;
    if (digits() == 0) {
      return false;
    }
  }
  if (i < token.size() && (token[i] == 'e' || token[i] == 'E')) {
    ++i;
    if (i < token.size() && (token[i] == '+' || token[i] == '-')) {
      ++i;
    }
    if (digits() == 0) {
      return false;
    }
  }
  return i == token.size();
}

IntegerOrReason ParseUnsigned(std::string_view token) {
  if (!IsJsonNumber(token)) {
    return {.value = 0, .reason = "is no number"};
  }
  if (token.find_first_of(".eE") != std::string_view::npos) {
    return {.value = 0, .reason = "is no whole number"};
  }
  if (token.starts_with('-')) {
    return {.value = 0, .reason = "is negative"};
  }
  std::uint64_t value = 0;
  for (const char c : token) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (value > (UINT64_MAX - digit) / 10) {
      return {.value = 0, .reason = "does not fit 64 bits"};
    }
    value = value * 10 + digit;
  }
  return {.value = value, .reason = {}};
}

std::optional<std::int64_t> ParseDecimal(std::string_view token, int decimals) {
  if (!IsJsonNumber(token)) {
    return std::nullopt;
  }
  constexpr std::int64_t kExponentMax = 10'000;
  constexpr std::int64_t kValueMax = std::int64_t{1} << 62;
  const bool is_negative = token.starts_with('-');
  token.remove_prefix(is_negative ? 1 : 0);
  std::int64_t exponent = 0;
  if (const std::size_t mark = token.find_first_of("eE"); mark != std::string_view::npos) {
    std::string_view digits = token.substr(mark + 1);
    const bool is_below_one = digits.starts_with('-');
    digits.remove_prefix(digits.starts_with('-') || digits.starts_with('+') ? 1 : 0);
    for (const char c : digits) {
      exponent = std::min(exponent * 10 + (c - '0'), kExponentMax);
    }
    exponent = is_below_one ? -exponent : exponent;
    token = token.substr(0, mark);
  }
  const std::size_t point = std::min(token.find('.'), token.size());
  // So many digits stand before the decimal point of the result; missing ones are zeros.
  const std::int64_t whole = static_cast<std::int64_t>(point) + exponent + decimals;
  std::int64_t value = 0;
  std::int64_t taken = 0;
  for (std::size_t i = 0; taken < whole; ++i) {
    i += i == point ? 1 : 0;
    if (i >= token.size() && value == 0) {
      return 0;
    }
    const int digit = i < token.size() ? token[i] - '0' : 0;
    if (value > (kValueMax - digit) / 10) {
      return std::nullopt;
    }
    value = value * 10 + digit;
    ++taken;
  }
  return is_negative ? -value : value;
}

const char* ScanIntegerArray(std::string_view text, std::vector<std::uint64_t>& ids) {
  const char* p = text.data();
  const char* const end = p + text.size();
  const auto pass_spaces = [&] {
    while (p < end && IsSpace(*p)) {
      ++p;
    }
  };
  if (p == end || *p != '[') {
    return nullptr;
  }
  ++p;
  pass_spaces();
  if (p < end && *p == ']') {
    return p + 1;
  }
  while (true) {
    std::uint64_t id = 0;
    if (p >= end) {
      return nullptr;
    }
    p = ScanUnsigned(p, id);
    if (p == nullptr) {
      return nullptr;
    }
    ids.push_back(id);
    if (p < end && IsSpace(*p)) {
      pass_spaces();
    }
    if (p >= end) {
      return nullptr;
    }
    const char c = *p++;
    if (c == ',') [[likely]] {
      if (p < end && IsSpace(*p)) {
        pass_spaces();
      }
      continue;
    }
    return c == ']' ? p : nullptr;
  }
}

}  // namespace kvferry::replay
