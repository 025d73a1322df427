// The sums, and which rows count.
#include "tiers/nvme/store_tally.h"

#include <algorithm>

#include "tiers/nvme/store_layout.h"

namespace kvferry::tiers {
namespace {

void Count(StoreTally::Blocks& blocks, const BlockRow& row) {
  ++blocks.count;
  blocks.stored_bytes += row.stored_bytes;
  blocks.raw_bytes += row.raw_bytes;
}

}  // namespace

bool HoldsBlocks(const SegmentRow& row, std::uint64_t generation) {
  return row.life.generation == generation && row.state != SegmentState::kClean;
}

void StoreTally::Add(const SegmentRow& row) {
  if (row.life.segment >= segments_.size()) {
    ++dropped_segments_;
    return;
  }
  segments_[row.life.segment].row = row;
  segments_[row.life.segment].is_known = true;
}

void StoreTally::Add(const PlacedRow& row) {
  const std::uint32_t number = row.life.segment;
  if (number >= segments_.size() || !segments_[number].is_known ||
      !HoldsBlocks(segments_[number].row, row.life.generation)) {
    ++orphans_;
    return;
  }
  Segment& segment = segments_[number];
  ++segment.blocks;
  segment.live_pages += PayloadPages(row.row.stored_bytes);
  segment.stored_bytes += row.row.stored_bytes;
  Count(blocks_, row.row);
  Count(by_namespace_[row.row.tenant], row.row);
  if ((row.row.flags & BlockRow::kProtected) != 0) {
    Count(protected_, row.row);
  }
}

std::uint32_t StoreTally::CountOf(SegmentState state) const {
  return static_cast<std::uint32_t>(std::count_if(
      segments_.begin(), segments_.end(),
      [state](const Segment& segment) { return segment.is_known && segment.row.state == state; }));
}

std::uint32_t StoreTally::CountOf(SegmentStream stream) const {
  return static_cast<std::uint32_t>(
      std::count_if(segments_.begin(), segments_.end(), [stream](const Segment& segment) {
        return segment.is_known && segment.row.state != SegmentState::kClean &&
               segment.row.stream == stream;
      }));
}

}  // namespace kvferry::tiers
