// StoreTally: the rows of a store counted up: what each segment holds, and whose blocks.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tiers/nvme/manifest_rows.h"

namespace kvferry::tiers {

// Segments have the numbers of the whole store.
//
// Thread-compatible.
class StoreTally {
 public:
  struct Segment {
    SegmentRow row;
    bool is_known = false;  // There is a row.
    std::uint32_t blocks = 0;
    std::uint64_t live_pages = 0;
    std::uint64_t stored_bytes = 0;
  };
  struct Blocks {
    std::uint64_t count = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t raw_bytes = 0;
  };

  explicit StoreTally(std::uint32_t segment_count) : segments_(segment_count) {}

  // All segments first, then their blocks.
  void Add(const SegmentRow& row);
  void Add(const PlacedRow& row);

  const std::vector<Segment>& segments() const noexcept { return segments_; }
  std::uint32_t CountOf(SegmentState state) const;
  // Of those that hold blocks.
  std::uint32_t CountOf(SegmentStream stream) const;
  const Blocks& blocks() const noexcept { return blocks_; }
  const Blocks& protected_blocks() const noexcept { return protected_; }
  // By the number that rows have for a namespace (BlockRow::tenant).
  const std::map<std::uint16_t, Blocks>& by_namespace() const noexcept { return by_namespace_; }
  // Segments that the store no longer has.
  std::uint64_t dropped_segments() const noexcept { return dropped_segments_; }
  // Blocks of no segment's present life; they are in no other count.
  std::uint64_t orphans() const noexcept { return orphans_; }

 private:
  std::vector<Segment> segments_;
  Blocks blocks_;
  Blocks protected_;
  std::map<std::uint16_t, Blocks> by_namespace_;
  std::uint64_t dropped_segments_ = 0;
  std::uint64_t orphans_ = 0;
};

// Whether blocks of that life of the segment can be hits.
bool HoldsBlocks(const SegmentRow& row, std::uint64_t generation);

}  // namespace kvferry::tiers
