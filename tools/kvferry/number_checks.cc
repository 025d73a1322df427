// Numbers are read whole or refused.
#include "number_checks.h"

#include <charconv>
#include <string>

#include "replay/text_format.h"

namespace kvferry::tool {
namespace {

// Whether all of `text` is one number.
template <class Number>
bool ReadNumber(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

}  // namespace

CLI::Validator WholeNumber(std::uint64_t min, std::uint64_t max) {
  return CLI::Validator(
      [min, max](const std::string& text) {
        std::uint64_t number = 0;
        return ReadNumber(text, number) && number >= min && number <= max
                   ? std::string()
                   : "'" + text + "' is no whole number from " + replay::FormatCount(min) + " to " +
                         replay::FormatCount(max);
      },
      "");
}

CLI::Validator AmountAbove0(double max) {
  return CLI::Validator(
      [max](const std::string& text) {
        double number = 0;
        // What is no number compares false.
        return ReadNumber(text, number) && number > 0 && number <= max
                   ? std::string()
                   : "'" + text + "' is no number above 0 and up to " +
                         replay::FormatCount(static_cast<std::uint64_t>(max));
      },
      "");
}

}  // namespace kvferry::tool
