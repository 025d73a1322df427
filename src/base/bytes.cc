// Parsing and printing of sizes.
#include "base/bytes.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>

namespace kvferry {
namespace {

constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 63;

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<Unit, 11> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"KB", 1'000},
                                          {"MB", 1'000'000},
                                          {"GB", 1'000'000'000},
                                          {"TB", 1'000'000'000'000},
                                          {"KiB", kKiB},
                                          {"MiB", kMiB},
                                          {"GiB", kGiB},
                                          {"TiB", kTiB},
                                          {"PiB", kTiB * 1024}}};

Status BadSize(std::string_view text) {
  return Status::Error(StatusCode::kInvalidArgument,
                       "'" + std::string(text) +
                           "' is not a size: write a number and a unit, such as 64GiB, 500 GB or "
                           "4096 (bytes)");
}

Status TooLarge(std::string_view text) {
  return Status::Error(
      StatusCode::kInvalidArgument,
      "'" + std::string(text) + "' is out of range: a size is at most " + FormatBytes(kBytesMax));
}

}  // namespace

Result<std::uint64_t> ParseBytes(std::string_view text) {
  // A plain count of bytes is read as such: a double would round it above 2^53.
  std::uint64_t count = 0;
  const auto whole = std::from_chars(text.data(), text.data() + text.size(), count);
  if (whole.ptr == text.data() + text.size() && !text.empty()) {
    return whole.ec == std::errc() && count <= kBytesMax ? Result<std::uint64_t>(count)
                                                         : TooLarge(text);
  }
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (parsed.ec != std::errc() || !std::isfinite(number) || number < 0) {
    return BadSize(text);
  }
  std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  while (!unit.empty() && unit.front() == ' ') {
    unit.remove_prefix(1);
  }
  for (const Unit& known : kUnits) {
    if (known.name == unit) {
      const double bytes = number * static_cast<double>(known.bytes);
      if (bytes > static_cast<double>(kBytesMax)) {
        return TooLarge(text);
      }
      return static_cast<std::uint64_t>(std::round(bytes));
    }
  }
  return BadSize(text);
}

std::string FormatBytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 6> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // Compared with what would be printed: 1,048,575 bytes are 1.00 MiB, not 1024 KiB.
  while (value >= (unit == 0 ? 1024 : 1023.5) && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f %s", digits, value, kNames[unit]);
  return text.data();
}

}  // namespace kvferry
