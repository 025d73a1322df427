// Counting of values and nearest-rank percentiles.
#include "replay/value_counts.h"

#include <algorithm>

#include "base/assert.h"

namespace kvferry::replay {

void ValueCounts::Add(std::uint64_t value, std::uint64_t count) {
  if (count == 0) {
    return;
  }
  total_count_ += count;
  if (!entries_.empty() && entries_.back().value == value) {
    entries_.back().count += count;
    return;
  }
  entries_.push_back({value, count});
  is_compact_ = false;
  if (entries_.size() >= compact_at_) {
    Compact();
    // Doubling keeps the cost of sorting proportional to the additions where most values differ.
    compact_at_ = std::max(compact_at_, entries_.size() * 2);
  }
}

std::uint64_t ValueCounts::Percentile(std::uint32_t percent) {
  KVFERRY_CHECK(percent >= 1);
  KVFERRY_CHECK(percent <= 100);
  KVFERRY_CHECK(total_count_ > 0);
  Compact();
  // ceil(percent * n / 100) without a product that could wrap.
  const std::uint64_t rank =
      total_count_ / 100 * percent + (total_count_ % 100 * percent + 99) / 100;
  std::uint64_t passed_count = 0;
  for (const Entry& entry : entries_) {
    passed_count += entry.count;
    if (passed_count >= rank) {
      return entry.value;
    }
  }
  return entries_.back().value;
}

void ValueCounts::Compact() {
  if (is_compact_) {
    return;
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.value < b.value; });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i].value == entries_[kept].value) {
      entries_[kept].count += entries_[i].count;
    } else {
      entries_[++kept] = entries_[i];
    }
  }
  entries_.resize(kept + 1);
  is_compact_ = true;
}

}  // namespace kvferry::replay
