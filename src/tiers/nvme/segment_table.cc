// Pages, owners and phases; nothing here touches a drive.
#include "tiers/nvme/segment_table.h"

#include <algorithm>

#include "base/assert.h"

namespace kvferry::tiers {

SegmentTable::SegmentTable(const Options& options)
    : options_(options),
      segments_(options.segment_count),
      owners_(std::size_t{options.segment_count} * options.owners_per_segment_max) {
  KVFERRY_CHECK(options.segment_count > 0 && options.pages_per_segment > kHeaderPages + 1);
  KVFERRY_CHECK(options.owners_per_segment_max > 0 &&
                options.owners_per_segment_max <= PayloadsMax(options.pages_per_segment));
  KVFERRY_CHECK(std::uint64_t{options.segment_count} * options.pages_per_segment <= 0xffffffff);
}

bool SegmentTable::HasRoom(std::uint32_t segment, std::uint32_t pages) const {
  const Segment& open = segments_[segment];
  return open.owner_count < options_.owners_per_segment_max &&
         open.next_page + pages <=
             FooterFirstPage(options_.pages_per_segment, open.owner_count + 1);
}

std::optional<std::uint32_t> SegmentTable::Append(std::uint32_t segment,
                                                  std::uint32_t pages,
                                                  std::uint32_t owner) {
  Segment& open = segments_[segment];
  KVFERRY_CHECK(open.phase == SegmentPhase::kOpen);
  KVFERRY_CHECK(pages > 0 && pages <= payload_pages_max());
  if (!HasRoom(segment, pages)) {
    return std::nullopt;
  }
  const std::uint32_t page = FirstPageOf(segment) + open.next_page;
  open.next_page += pages;
  AddOwner(segment, owner);
  return page;
}

bool SegmentTable::AddOwner(std::uint32_t segment, std::uint32_t owner) {
  Segment& listing = segments_[segment];
  if (listing.owner_count == options_.owners_per_segment_max) {
    return false;
  }
  owners_[std::size_t{segment} * options_.owners_per_segment_max + listing.owner_count] = owner;
  ++listing.owner_count;
  return true;
}

std::span<const std::uint32_t> SegmentTable::OwnersOf(std::uint32_t segment) const {
  return std::span(owners_).subspan(std::size_t{segment} * options_.owners_per_segment_max,
                                    segments_[segment].owner_count);
}

void SegmentTable::Begin(std::uint32_t segment, std::uint64_t generation) {
  Segment& begun = segments_[segment];
  KVFERRY_CHECK(begun.users == 0 && begun.writers == 0 && begun.live_bytes == 0);
  KVFERRY_CHECK(generation > begun.generation);
  const std::uint16_t failures = begun.failures;
  begun = Segment{};
  begun.failures = failures;
  begun.generation = generation;
  begun.phase = SegmentPhase::kPreparing;
}

void SegmentTable::Restore(const SegmentRow& row) {
  Segment& found = segments_[row.life.segment];
  found.generation = row.life.generation;
  found.opened_unix_ms = row.opened_unix_ms;
  found.stream = row.stream;
  found.used_pages = std::max(kHeaderPages, row.used_pages);
  found.next_page = found.used_pages;
  found.has_footer = row.state != SegmentState::kClean;
  switch (row.state) {
    case SegmentState::kClean:
      found.phase = SegmentPhase::kUnused;  // Whether it got its header is not known.
      break;
    case SegmentState::kOpen:
      found.phase = SegmentPhase::kOpen;
      break;
    case SegmentState::kSealed:
      found.phase = SegmentPhase::kSealed;
      break;
    case SegmentState::kQuarantined:
      found.phase = SegmentPhase::kQuarantined;
      break;
  }
}

SegmentRow SegmentTable::RowOf(std::uint32_t segment, SegmentState state) const {
  const Segment& known = segments_[segment];
  return {.life = {segment, known.generation},
          .state = state,
          .stream = known.stream,
          .used_pages = known.used_pages,
          .live_bytes = known.live_bytes,
          .opened_unix_ms = known.opened_unix_ms};
}

std::optional<std::uint32_t> SegmentTable::Oldest() const {
  const std::uint64_t half = std::uint64_t{options_.pages_per_segment} * kDiskPageBytes / 2;
  std::optional<std::uint32_t> oldest;
  std::optional<std::uint32_t> emptiest;  // Of those that are passed over.
  for (std::uint32_t segment = 0; segment < segments_.size(); ++segment) {
    const Segment& candidate = segments_[segment];
    if (candidate.phase != SegmentPhase::kSealed) {
      continue;
    }
    if (candidate.stream == SegmentStream::kProtected && candidate.live_bytes >= half) {
      if (!emptiest || candidate.live_bytes < segments_[*emptiest].live_bytes) {
        emptiest = segment;
      }
      continue;
    }
    if (!oldest || candidate.generation < segments_[*oldest].generation) {
      oldest = segment;
    }
  }
  return oldest ? oldest : emptiest;
}

std::optional<std::uint32_t> SegmentTable::FirstEmpty() const {
  for (std::uint32_t segment = 0; segment < segments_.size(); ++segment) {
    const Segment& candidate = segments_[segment];
    if (candidate.phase == SegmentPhase::kUnused ||
        (candidate.phase == SegmentPhase::kSealed && candidate.live_bytes == 0)) {
      return segment;
    }
  }
  return std::nullopt;
}

bool SegmentTable::IsAnyToReuse() const {
  return std::any_of(segments_.begin(), segments_.end(), [](const Segment& segment) {
    return segment.phase != SegmentPhase::kClean && segment.phase != SegmentPhase::kOpen &&
           segment.phase != SegmentPhase::kQuarantined;
  });
}

void SegmentTable::CheckInvariants() const {
  for (const Segment& segment : segments_) {
    KVFERRY_CHECK(segment.used_pages <= segment.next_page);
    KVFERRY_CHECK(segment.next_page <= options_.pages_per_segment);
    KVFERRY_CHECK(segment.owner_count <= options_.owners_per_segment_max);
    KVFERRY_CHECK(segment.live_bytes <= std::uint64_t{options_.pages_per_segment} * kDiskPageBytes);
    const bool is_empty = segment.phase == SegmentPhase::kUnused ||
                          segment.phase == SegmentPhase::kPreparing ||
                          segment.phase == SegmentPhase::kClean;
    KVFERRY_CHECK(!is_empty || (segment.live_bytes == 0 && segment.users == 0));
  }
}

}  // namespace kvferry::tiers
