// The keys of the manifest's rows in one ordered key space: blocks by place, segments, values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tiers/nvme/manifest_rows.h"

namespace kvferry::tiers {

// The first byte of a key says what the row is. Numbers follow in big-endian, so that keys sort as
// the numbers do.
inline constexpr char kBlockRowPrefix = 'b';
inline constexpr char kMetaPrefix = 'm';
inline constexpr char kSegmentRowPrefix = 's';
inline constexpr std::string_view kVersionRowKey = "v";

std::string BlockRowKey(const BlockPlace& place);
std::string MetaRowKey(std::string_view name);
std::string SegmentRowKey(std::uint32_t segment);

// The keys of all block rows of a life: from `begin` up to `end`, which is none of them.
struct KeyRange {
  std::string begin;
  std::string end;
};
KeyRange BlockRowKeysOf(const SegmentLife& life);

// Nothing for what is no key of a block row.
std::optional<BlockPlace> ParseBlockRowKey(std::string_view key);

}  // namespace kvferry::tiers
