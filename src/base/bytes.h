// Sizes in bytes: unit constants, parsing and printing, rounding, checked narrowing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "kvferry/status.h"

#include "base/assert.h"

namespace kvferry {

inline constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;

// The least multiple of `alignment` (a power of two) that is not below `value`.
constexpr std::uint64_t AlignUp(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// `percent` (up to 100) of `bytes`, rounded down to a whole byte.
constexpr std::uint64_t PercentOf(std::uint64_t bytes, std::uint32_t percent) {
  return bytes / 100 * percent + bytes % 100 * percent / 100;
}

// The same number in another integer type; stops the process when it does not fit.
template <class To, class From>
constexpr To Narrow(From value) {
  KVFERRY_CHECK(std::in_range<To>(value));
  return static_cast<To>(value);
}

// "64GiB", "1.5 GB", "4096": binary units with an i, decimal without, bytes without a unit.
// kInvalidArgument, naming `text`, for anything else or above 2^63.
Result<std::uint64_t> ParseBytes(std::string_view text);

// "1.50 GiB": three digits at least, binary units, exact below 1 KiB.
std::string FormatBytes(std::uint64_t bytes);

}  // namespace kvferry
