// ValueCounts: a multiset kept as distinct values and how often each came, and its percentiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvferry::replay {

// Memory follows the distinct values, not the additions: millions of equal gaps take one entry.
//
// Thread-compatible.
class ValueCounts {
 public:
  void Add(std::uint64_t value, std::uint64_t count);

  bool is_empty() const { return total_count_ == 0; }
  std::uint64_t total_count() const { return total_count_; }

  // Nearest rank: the value at place ceil(percent * n / 100) in ascending order, counted from 1.
  // `percent` is 1 to 100, and there is at least one value.
  std::uint64_t Percentile(std::uint32_t percent);
  std::uint64_t Max() { return Percentile(100); }

 private:
  struct Entry {
    std::uint64_t value = 0;
    std::uint64_t count = 0;
  };

  void Compact();

  std::vector<Entry> entries_;
  std::size_t compact_at_ = std::size_t{1} << 16;
  std::uint64_t total_count_ = 0;
  bool is_compact_ = true;
};

}  // namespace kvferry::replay
