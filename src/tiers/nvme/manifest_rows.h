// The rows of the manifest: where a block lies, and what a segment is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/checksum.h"

namespace kvferry::tiers {

// One life of a segment. Generations grow over the whole store, so the pair never comes back.
struct SegmentLife {
  std::uint32_t segment = 0;
  std::uint64_t generation = 0;
  bool operator==(const SegmentLife&) const = default;
  bool operator<(const SegmentLife& other) const {
    return std::tie(segment, generation) < std::tie(other.segment, other.generation);
  }
};

// Where a block starts: a page of kIoAlignment bytes within a segment's life. Sorted by place, the
// rows of one life are one run.
struct BlockPlace {
  SegmentLife life;
  std::uint32_t page = 0;
  bool operator==(const BlockPlace&) const = default;
  bool operator<(const BlockPlace& other) const {
    return std::tie(life, page) < std::tie(other.life, other.page);
  }
};

// What is stored of a block there. `page` repeats the place's page, so that a row alone, in a
// segment's footer or in the manifest, names its place within the segment.
struct BlockRow {
  // Bits of `flags`. A row with others was written by a later version and is not ours to interpret.
  static constexpr std::uint8_t kProtected = 1;
  static constexpr std::uint8_t kKnownFlags = kProtected;

  BlockKey key;
  std::uint32_t page = 0;
  std::uint32_t stored_bytes = 0;  // On the drive, before rounding up to pages.
  std::uint32_t raw_bytes = 0;     // In host form.
  std::uint16_t tenant = 0;        // An index into a table kept as a meta value.
  std::uint8_t codec = 0;
  std::uint8_t flags = 0;
  Checksum checksum;  // Of the host form.
  bool operator==(const BlockRow&) const = default;
};

struct PlacedRow {
  SegmentLife life;
  BlockRow row;
  BlockPlace place() const { return {life, row.page}; }
  bool operator==(const PlacedRow&) const = default;
};

// A row's 64 bytes on the drive, in the order of the fields, little-endian.
inline constexpr std::size_t kBlockRowBytes = 64;
std::array<std::byte, kBlockRowBytes> Encode(const BlockRow& row);
// kDataLoss for unknown flags.
Result<BlockRow> DecodeBlockRow(std::span<const std::byte, kBlockRowBytes> bytes);

enum class SegmentState : std::uint8_t {
  kClean,        // Never used, or its blocks are given up; to be opened next.
  kOpen,         // Being filled.
  kSealed,       // Full, with a footer.
  kQuarantined,  // Not to be used until an operator says so.
};

// What a segment's blocks have in common.
enum class SegmentStream : std::uint8_t { kNormal, kProtected };

// Of the segment's latest life; there is one row a segment.
struct SegmentRow {
  SegmentLife life;
  SegmentState state = SegmentState::kClean;
  SegmentStream stream = SegmentStream::kNormal;
  std::uint32_t used_pages = 0;  // Up to the last page known to be committed, the header included.
  std::uint64_t live_bytes = 0;  // When the row was written; a hint.
  std::int64_t opened_unix_ms = 0;  // The age of its blocks, for people and for FIFO order.
  bool operator==(const SegmentRow&) const = default;
};

// A segment's row in the manifest: numbers little-endian, state and stream after them, then zeros.
inline constexpr std::size_t kSegmentRowBytes = 40;
std::array<std::byte, kSegmentRowBytes> Encode(const SegmentRow& row);
// kDataLoss for a state, a stream or other bits that this version does not know.
Result<SegmentRow> DecodeSegmentRow(std::span<const std::byte, kSegmentRowBytes> bytes);

}  // namespace kvferry::tiers
