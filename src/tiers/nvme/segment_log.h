// SegmentLog: which pages of the NVMe tier are written next, and whose segment is given up for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvferry::tiers {

// A log over segments of equal size that are filled one after another and reused in that order.
// Pure bookkeeping: pages count from the tier's start, 4 KiB each. Owners are numbers of the
// caller's; a segment lists the owners of its payloads in the order of their pages.
//
// Thread-confined to the mover thread.
class SegmentLog {
 public:
  struct Options {
    std::uint32_t segment_count = 0;           // At least 2.
    std::uint32_t pages_per_segment = 0;       // At least 2, the first one being the header's.
    std::uint32_t owners_per_segment_max = 0;  // Payloads that one segment can take.
  };
  static constexpr std::uint32_t kHeaderPages = 1;

  explicit SegmentLog(const Options& options);

  std::uint32_t segment_count() const noexcept { return options_.segment_count; }
  std::uint32_t pages_per_segment() const noexcept { return options_.pages_per_segment; }
  std::uint32_t SegmentOf(std::uint32_t page) const noexcept {
    return page / options_.pages_per_segment;
  }
  // The most pages that a payload may have.
  std::uint32_t payload_pages_max() const noexcept {
    return options_.pages_per_segment - kHeaderPages;
  }

  // The first of `pages` free pages of the open segment, listed for `owner`. Nothing when they do
  // not fit: then the next segment must be opened.
  std::optional<std::uint32_t> Append(std::uint32_t pages, std::uint32_t owner);
  // The segment that OpenNext would open: the one that was opened the longest time ago.
  std::uint32_t next_segment() const noexcept { return (open_ + 1) % options_.segment_count; }
  // Owners that were listed for it since it was opened, those whose payload is gone included.
  std::span<const std::uint32_t> OwnersOf(std::uint32_t segment) const;
  // Transfers that read or write pages of the segment.
  void AddUser(std::uint32_t segment) { ++users_[segment]; }
  void RemoveUser(std::uint32_t segment);
  std::uint32_t users(std::uint32_t segment) const { return users_[segment]; }
  // Starts over in the next segment, whose payloads must be withdrawn and whose users gone.
  void OpenNext();
  // How often segments were opened after the first round.
  std::uint64_t reuses() const noexcept { return reuses_; }

 private:
  Options options_;
  std::uint32_t open_ = 0;
  std::uint32_t next_page_ = kHeaderPages;  // Within the open segment.
  std::uint64_t opened_ = 1;
  std::uint64_t reuses_ = 0;
  std::vector<std::uint32_t> owners_;  // owners_per_segment_max a segment.
  std::vector<std::uint32_t> owner_counts_;
  std::vector<std::uint32_t> users_;
};

}  // namespace kvferry::tiers
