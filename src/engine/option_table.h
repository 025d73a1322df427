// The one table of engine options: how each is called, what it may be, and what to do otherwise.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kvferry/options.h"
#include "kvferry/status.h"

#include "base/bytes.h"

namespace kvferry::engine {

enum class OptionUnit : std::uint8_t {
  kCount,
  kBytes,  // Also as text with a unit.
  kMilliseconds,
  kPercent,
  kSeed,  // Any 64 bits; above what TOML's integers hold as text.
};

// Of a number; texts and switches have a name and a remedy only.
struct OptionFacts {
  std::string_view name;  // "host.bytes": the field, and its key in a file.
  std::int64_t min = 0;
  std::uint64_t max = 0;
  OptionUnit unit = OptionUnit::kCount;
  bool is_zero_allowed = false;  // Beside the range: something is chosen then.
  std::string_view remedy = {};  // Continues "it must lie between ...; ".
};

inline constexpr std::uint64_t kBlockBytesMin = 4 * kKiB;
inline constexpr std::uint64_t kBlockBytesMax = 64 * kMiB;
inline constexpr std::uint64_t kHostBlocksMin = 8;
// Policies number resident and remembered blocks in 28 bits; a few numbers are spare.
inline constexpr std::uint64_t kNumberedBlocksMax = (std::uint64_t{1} << 28) - 1024;
inline constexpr std::uint64_t kMillisecondsMax = 3'600'000;

// Calls `visit` with the facts and the field of each option, in the order of ToString.
template <class Options, class Visit>
requires std::same_as<std::remove_const_t<Options>, EngineOptions>
void VisitOptions(Options& options, Visit&& visit) {
  using enum OptionUnit;
  visit(OptionFacts{"host.bytes", 2 * kMiB, 16 * kTiB, kBytes, true,
                    "0 takes half of the memory that the process may use"},
        options.host.bytes);
  visit(OptionFacts{.name = "host.huge_pages"}, options.host.huge_pages);
  visit(OptionFacts{"host.numa_node", -1, 1023, kCount, false, "-1 binds to no node"},
        options.host.numa_node);
  visit(OptionFacts{.name = "host.is_populated"}, options.host.is_populated);
  visit(OptionFacts{.name = "host.verify_on_get"}, options.host.verify_on_get);
  visit(OptionFacts{.name = "host.policy"}, options.host.policy);
  visit(OptionFacts{"host.held_percent", 1, 100, kPercent, false,
                    "it is the part of host.bytes that handles may keep"},
        options.host.held_percent);
  visit(OptionFacts{"history.blocks_max", 0, (std::uint64_t{1} << 28) - 2, kCount, false,
                    "each takes up to 16 bytes, and 65,536 do for most"},
        options.history.blocks_max);
  visit(OptionFacts{"block_bytes", kBlockBytesMin, kBlockBytesMax, kBytes, false,
                    "give the usual size of a block, all its layers together"},
        options.block_bytes);
  visit(OptionFacts{"namespaces_max", 1, 65'534, kCount, false,
                    "one serves one layer group of one model and tenant"},
        options.namespaces_max);
  visit(OptionFacts{"requests_max", 1, 65'536, kCount, false,
                    "give as many as callers have unfinished at one time"},
        options.requests_max);
  visit(OptionFacts{"blocks_per_request_max", 1, 1'048'576, kCount, false,
                    "give the longest prefix in blocks, and split longer requests"},
        options.blocks_per_request_max);
  visit(OptionFacts{"handles_max", 1, 16'777'216, kCount, false,
                    "give as many blocks as are held at one time"},
        options.handles_max);
  visit(OptionFacts{"transfers_max", 2, 65'536, kCount, false,
                    "reads and writes share them; 256 keep a drive busy"},
        options.transfers_max);
  visit(OptionFacts{"deadline_ms", 1, kMillisecondsMax, kMilliseconds, false,
                    "requests that may take longer give their own deadline"},
        options.deadline_ms);
  visit(OptionFacts{"close_deadline_ms", 0, kMillisecondsMax, kMilliseconds, false,
                    "0 cancels at once what is unfinished"},
        options.close_deadline_ms);
  visit(OptionFacts{"copy_threads", 0, 256, kCount, false, "0 takes one for every two cores"},
        options.copy_threads);
  visit(OptionFacts{"seed", 0, UINT64_MAX, kSeed, false, ""}, options.seed);
}

// kInvalidArgument naming the option, the value and the range.
Status OutOfRange(const OptionFacts& facts, std::string_view value);

template <std::integral Number>
Status CheckRange(const OptionFacts& facts, Number value) {
  const bool is_in_range =
      std::cmp_greater_equal(value, facts.min) && std::cmp_less_equal(value, facts.max);
  if (is_in_range || (facts.is_zero_allowed && value == 0)) {
    return Status::Ok();
  }
  return OutOfRange(facts, std::to_string(value));
}

std::string_view NameOf(HugePages pages);
// Whether `name` is one of a value; sets it if so.
bool ReadHugePages(std::string_view name, HugePages& pages);
// "none, transparent or reserved".
std::string_view HugePagesNames();

}  // namespace kvferry::engine
