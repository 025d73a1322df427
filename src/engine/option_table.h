// The one table of engine options: how each is called, what it may be, and what to do otherwise.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvferry/options.h"
#include "kvferry/status.h"

#include "base/bytes.h"
#include "tiers/nvme/open_io_ring.h"
#include "tiers/nvme/store_layout.h"

namespace kvferry::engine {

enum class OptionUnit : std::uint8_t {
  kCount,
  kBytes,  // Also as text with a unit.
  kMilliseconds,
  kPercent,
  kPath,
  kSeed,  // Any 64 bits; above what TOML's integers hold as text.
};

// Of a number; texts and switches have a name only, paths their unit as well.
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

template <class Options, class Visit>
void VisitHbmOptions(Options& hbm, Visit& visit) {
  using enum OptionUnit;
  visit(OptionFacts{.name = "hbm.mode"}, hbm.mode);
  visit(OptionFacts{"hbm.device", 0, 255, kCount, false,
                    "it counts the GPUs that the process sees, from 0"},
        hbm.device);
  visit(OptionFacts{.name = "hbm.runtime_path", .unit = kPath}, hbm.runtime_path);
  visit(OptionFacts{.name = "hbm.is_required"}, hbm.is_required);
}

template <class Options, class Visit>
void VisitNvmeOptions(Options& nvme, Visit& visit) {
  using enum OptionUnit;
  visit(OptionFacts{.name = "nvme.paths", .unit = kPath}, nvme.paths);
  visit(OptionFacts{.name = "nvme.manifest_path", .unit = kPath}, nvme.manifest_path);
  visit(OptionFacts{"nvme.capacity_bytes", 4 * kMiB, 1024 * kTiB, kBytes, true,
                    "give what all files of the tier may take together"},
        nvme.capacity_bytes);
  visit(OptionFacts{"nvme.segment_bytes", tiers::kSegmentBytesMin, tiers::kSegmentBytesMax, kBytes,
                    true, "0 chooses by the capacity, and does for most"},
        nvme.segment_bytes);
  visit(OptionFacts{"nvme.write_bytes_per_day", kMiB, 1024 * kTiB, kBytes, true,
                    "0 sets no budget; a drive's data sheet says what it bears"},
        nvme.write_bytes_per_day);
  visit(OptionFacts{.name = "nvme.admits_on_second_touch"}, nvme.admits_on_second_touch);
  visit(OptionFacts{"nvme.protected_percent", 0, 90, kPercent, false,
                    "it is the part of the tier that persisted blocks may take"},
        nvme.protected_percent);
  visit(OptionFacts{"nvme.commit_bytes", 4 * kKiB, kGiB, kBytes, false,
                    "32MiB keep a drive at its rate; fewer make writes durable sooner"},
        nvme.commit_bytes);
  visit(OptionFacts{"nvme.commit_ms", 1, 60'000, kMilliseconds, false,
                    "it is how long a write may stay without being durable"},
        nvme.commit_ms);
  visit(OptionFacts{"nvme.in_flight_max", 2, tiers::IoRingOptions::kInFlightMax, kCount, false,
                    "128 keep a few drives busy"},
        nvme.in_flight_max);
  visit(OptionFacts{.name = "nvme.io"}, nvme.io);
  visit(OptionFacts{.name = "nvme.is_required"}, nvme.is_required);
  visit(OptionFacts{"nvme.probe_ms", 10, kMillisecondsMax, kMilliseconds, false,
                    "each try opens the drives anew"},
        nvme.probe_ms);
  visit(OptionFacts{.name = "nvme.may_format"}, nvme.may_format);
}

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
  VisitHbmOptions(options.hbm, visit);
  VisitNvmeOptions(options.nvme, visit);
  visit(OptionFacts{"history.blocks_max", 0, kNumberedBlocksMax - kHostBlocksMin, kCount, false,
                    "each takes 11 to 57 bytes, and 65,536 do for most"},
        options.history.blocks_max);
  visit(OptionFacts{"block_bytes", kBlockBytesMin, kBlockBytesMax, kBytes, false,
                    "give the usual size of a block, all its layers together"},
        options.block_bytes);
  visit(OptionFacts{"namespaces_max", 1, 65'526, kCount, false,
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

// A field that is one of some named values.
template <class Field>
concept Choice = std::is_enum_v<Field>;

// Empty for a number that is none of the values.
std::string_view NameOf(HugePages value);
std::string_view NameOf(HbmMode value);
std::string_view NameOf(NvmeIo value);
// Whether `name` is one of a value; sets it if so.
bool ReadChoice(std::string_view name, HugePages& value);
bool ReadChoice(std::string_view name, HbmMode& value);
bool ReadChoice(std::string_view name, NvmeIo& value);
// "none, transparent or reserved".
std::string_view NamesLike(HugePages any);
std::string_view NamesLike(HbmMode any);
std::string_view NamesLike(NvmeIo any);

}  // namespace kvferry::engine
