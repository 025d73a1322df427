// One segment after another, round and round.
#include "tiers/nvme/segment_log.h"

#include "base/assert.h"

namespace kvferry::tiers {

SegmentLog::SegmentLog(const Options& options)
    : options_(options),
      owners_(std::size_t{options.segment_count} * options.owners_per_segment_max),
      owner_counts_(options.segment_count),
      users_(options.segment_count) {
  KVFERRY_CHECK(options.segment_count >= 2 && options.pages_per_segment > kHeaderPages);
  KVFERRY_CHECK(options.owners_per_segment_max > 0);
}

std::optional<std::uint32_t> SegmentLog::Append(std::uint32_t pages, std::uint32_t owner) {
  KVFERRY_CHECK(pages > 0 && pages <= payload_pages_max());
  if (options_.pages_per_segment - next_page_ < pages ||
      owner_counts_[open_] == options_.owners_per_segment_max) {
    return std::nullopt;
  }
  const std::uint32_t page = open_ * options_.pages_per_segment + next_page_;
  next_page_ += pages;
  owners_[std::size_t{open_} * options_.owners_per_segment_max + owner_counts_[open_]] = owner;
  ++owner_counts_[open_];
  return page;
}

std::span<const std::uint32_t> SegmentLog::OwnersOf(std::uint32_t segment) const {
  return std::span(owners_).subspan(std::size_t{segment} * options_.owners_per_segment_max,
                                    owner_counts_[segment]);
}

void SegmentLog::RemoveUser(std::uint32_t segment) {
  KVFERRY_CHECK(users_[segment] > 0);
  --users_[segment];
}

void SegmentLog::OpenNext() {
  const std::uint32_t next = next_segment();
  KVFERRY_CHECK(users_[next] == 0);
  open_ = next;
  next_page_ = kHeaderPages;
  owner_counts_[next] = 0;
  if (++opened_ > options_.segment_count) {
    ++reuses_;
  }
}

}  // namespace kvferry::tiers
