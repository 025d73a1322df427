// Parsing of capacities and durations; shares stay exact because floor() is taken of them.
#include "replay/capacity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/bytes.h"

namespace kvferry::replay {
namespace {

constexpr std::size_t kShareDecimalsMax = 6;
constexpr std::string_view kNothing = "a cache of no block holds nothing";

Status BadCapacity(std::string_view text, std::string_view reason) {
  return Status::Error(StatusCode::kInvalidArgument,
                       "capacity '" + std::string(text) + "': " + std::string(reason) +
                           "; write blocks (5000), a share of the distinct blocks (2.5%) or bytes "
                           "(64GiB)");
}

Result<Capacity> ParseShare(std::string_view text, std::string_view digits) {
  Capacity capacity{.kind = Capacity::Kind::kShare, .divisor = 100, .text = std::string(text)};
  bool has_point = false;
  std::size_t digit_count = 0;
  std::size_t decimals = 0;
  for (const char c : digits) {
    if (c == '.' && !has_point) {
      has_point = true;
      continue;
    }
    if (c < '0' || c > '9') {
      return BadCapacity(text, "that is no number before the %");
    }
    capacity.value = capacity.value * 10 + static_cast<std::uint64_t>(c - '0');
    if (has_point) {
      capacity.divisor *= 10;
      ++decimals;
    }
    if (++digit_count > 9 || decimals > kShareDecimalsMax) {
      return BadCapacity(text, "that is more digits than a share can need");
    }
  }
  if (digit_count == 0) {
    return BadCapacity(text, "that is no number before the %");
  }
  if (capacity.value == 0) {
    return BadCapacity(text, kNothing);
  }
  if (capacity.value > capacity.divisor) {
    return BadCapacity(text, "a share is at most 100 %");
  }
  return capacity;
}

}  // namespace

Result<Capacity> ParseCapacity(std::string_view text) {
  if (!text.empty() && text.back() == '%') {
    return ParseShare(text, text.substr(0, text.size() - 1));
  }
  std::uint64_t blocks = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), blocks);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) {
    if (blocks == 0) {
      return BadCapacity(text, kNothing);
    }
    return Capacity{.kind = Capacity::Kind::kBlocks, .value = blocks, .text = std::string(text)};
  }
  if (!text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos) {
    return BadCapacity(text, text.find('.') == std::string_view::npos
                                 ? "that is more than 4,294,967,294 blocks"
                                 : "blocks are whole numbers, and a share or bytes have a unit");
  }
  const Result<std::uint64_t> bytes = ParseBytes(text);
  if (!bytes.has_value()) {
    return BadCapacity(text, "that is no size");
  }
  if (*bytes == 0) {
    return BadCapacity(text, kNothing);
  }
  return Capacity{.kind = Capacity::Kind::kBytes, .value = *bytes, .text = std::string(text)};
}

Result<std::uint32_t> CapacityBlocks(const Capacity& capacity,
                                     std::uint64_t distinct_blocks,
                                     std::uint64_t block_bytes) {
  std::uint64_t blocks = capacity.value;
  if (capacity.kind == Capacity::Kind::kShare) {
    // At most 1e8 x 2^32: six decimals of a share fit.
    blocks = std::max<std::uint64_t>(capacity.value * distinct_blocks / capacity.divisor, 1);
  } else if (capacity.kind == Capacity::Kind::kBytes) {
    if (block_bytes == 0) {
      return BadCapacity(
          capacity.text,
          "bytes need the size of a block: add --model CONFIG or --bytes-per-token N");
    }
    blocks = capacity.value / block_bytes;
    if (blocks == 0) {
      return BadCapacity(capacity.text,
                         "that is less than one block of " + FormatBytes(block_bytes));
    }
  }
  constexpr std::uint64_t kBlocksMax = 0xfffffffe;
  if (blocks > kBlocksMax) {
    return BadCapacity(capacity.text, "that is more than 4,294,967,294 blocks");
  }
  return static_cast<std::uint32_t>(blocks);
}

Result<std::int64_t> ParseDurationMs(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 7> kUnits = {
      {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"min", 6e4}, {"h", 3.6e6}, {"d", 8.64e7}}};
  constexpr double kMax = 10 * 366 * 8.64e7;
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (parsed.ec == std::errc() && std::isfinite(number) && number >= 0) {
    const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
    const auto* known = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& candidate) {
      return candidate.first == unit;
    });
    if (known != kUnits.end() && number * known->second <= kMax) {
      return static_cast<std::int64_t>(number * known->second);
    }
    if (known != kUnits.end()) {
      return Status::Error(
          StatusCode::kInvalidArgument,
          "'" + std::string(text) + "' is too long: give at most 3660 days (3660d)");
    }
  }
  return Status::Error(
      StatusCode::kInvalidArgument,
      "'" + std::string(text) +
          "' is not a time: write seconds (90) or a number with ms, s, m, min, h or d");
}

}  // namespace kvferry::replay
