// SegmentTable: what each segment of the NVMe tier holds, how full it is, and who uses its pages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tiers/nvme/manifest_rows.h"
#include "tiers/nvme/store_layout.h"

namespace kvferry::tiers {

// The life of a segment, as this process sees it:
//
//   kUnused --Record--> kPreparing --header durable--> kClean --Open--> kOpen
//      ^                                                                  |
//      |                                                        full: nothing is appended
//      |                                                                  v
//   drained <-- kEmptying <-- its turn has come -- kSealed <-- footer -- kSealing
//
// and to kQuarantined from anywhere, for good.
enum class SegmentPhase : std::uint8_t {
  kUnused,     // Holds nothing that counts; its next life is not recorded yet.
  kPreparing,  // The next life is being recorded and headed.
  kClean,      // May be opened.
  kOpen,
  kSealing,
  kSealed,
  kEmptying,  // Its blocks are leaving.
  kQuarantined,
};

// Pure bookkeeping over segments 0 .. count-1. A page's number counts over the whole tier, a
// segment's pages after those of the one before. Owners are numbers of the caller's; a segment
// lists the owners of its payloads, also those whose payload has gone.
//
// Thread-confined to the mover thread.
class SegmentTable {
 public:
  struct Options {
    std::uint32_t segment_count = 0;
    std::uint32_t pages_per_segment = 0;       // segment_count times this is below 2^32.
    std::uint32_t owners_per_segment_max = 0;  // Payloads that one segment can take; at least 1.
  };
  static constexpr std::uint32_t kHeaderPages = 1;

  struct Segment {
    std::uint64_t generation = 0;  // 0: it never had a life.
    std::int64_t opened_unix_ms = 0;
    std::uint64_t live_bytes = 0;
    std::uint32_t next_page = kHeaderPages;   // Where the next payload goes, within the segment.
    std::uint32_t used_pages = kHeaderPages;  // Up to the last committed page.
    std::uint32_t owner_count = 0;
    std::uint32_t users = 0;    // Who reads its pages, or will.
    std::uint32_t writers = 0;  // Payloads that were appended and are not durable or lost yet.
    std::uint16_t failures = 0;
    bool has_footer = false;  // One that a rebuild may take.
    bool is_held_up = false;  // It cannot be emptied for now.
    SegmentPhase phase = SegmentPhase::kUnused;
    SegmentStream stream = SegmentStream::kNormal;
  };

  explicit SegmentTable(const Options& options);

  std::uint32_t segment_count() const noexcept { return options_.segment_count; }
  std::uint32_t pages_per_segment() const noexcept { return options_.pages_per_segment; }
  std::uint32_t owners_per_segment_max() const noexcept { return options_.owners_per_segment_max; }
  Segment& operator[](std::uint32_t segment) { return segments_[segment]; }
  const Segment& operator[](std::uint32_t segment) const { return segments_[segment]; }
  std::uint32_t SegmentOf(std::uint32_t page) const noexcept {
    return page / options_.pages_per_segment;
  }
  std::uint32_t FirstPageOf(std::uint32_t segment) const noexcept {
    return segment * options_.pages_per_segment;
  }
  // The most pages that a payload may have: a header and a footer stand beside it.
  std::uint32_t payload_pages_max() const noexcept {
    return options_.pages_per_segment - kHeaderPages - 1;
  }

  // The first of `pages` pages of an open segment, listed for `owner`. Nothing when they do not fit
  // beside the footer.
  std::optional<std::uint32_t> Append(std::uint32_t segment,
                                      std::uint32_t pages,
                                      std::uint32_t owner);
  bool HasRoom(std::uint32_t segment, std::uint32_t pages) const;
  // Lists the owner of a payload that was found there. False: the list is full.
  bool AddOwner(std::uint32_t segment, std::uint32_t owner);
  std::span<const std::uint32_t> OwnersOf(std::uint32_t segment) const;

  // A new life: empty, of a generation above all others.
  void Begin(std::uint32_t segment, std::uint64_t generation);
  // What the manifest's row of the segment says. Its row for the manifest, with `state`.
  void Restore(const SegmentRow& row);
  SegmentRow RowOf(std::uint32_t segment, SegmentState state) const;

  // The sealed segment of the oldest life, which is emptied next. Those of the protected stream are
  // passed over until less than half of them lives, or nothing else is left: then the one of which
  // least lives comes first. Nothing: there is none.
  std::optional<std::uint32_t> Oldest() const;
  // A segment that holds nothing: never used, given up, or sealed with nothing alive left.
  std::optional<std::uint32_t> FirstEmpty() const;
  // Whether a segment that is not clean now can become so, or is about to. Open ones do not count.
  bool IsAnyToReuse() const;

  void CheckInvariants() const;

 private:
  Options options_;
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> owners_;  // owners_per_segment_max a segment.
};

}  // namespace kvferry::tiers
