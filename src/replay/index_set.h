// IndexSet: a set of small integers whose largest member is found at once.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace kvferry::replay {

// A bit a possible member, and above each 64 bits one that says whether any of them is set, up to a
// single word: every operation takes as many steps as there are levels, which is log64 of the size.
//
// Thread-compatible.
class IndexSet {
 public:
  explicit IndexSet(std::uint64_t size) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size);
    } while (size > 1);
  }

  bool is_empty() const { return levels_.back().empty() || levels_.back()[0] == 0; }
  bool contains(std::uint64_t index) const {
    return (levels_[0][index / 64] >> (index % 64) & 1) != 0;
  }
  void Insert(std::uint64_t index) {
    for (std::vector<std::uint64_t>& words : levels_) {
      std::uint64_t& word = words[index / 64];
      const bool was_empty = word == 0;
      word |= std::uint64_t{1} << (index % 64);
      if (!was_empty) {
        return;
      }
      index /= 64;
    }
  }
  // `index` is a member.
  void Erase(std::uint64_t index) {
    for (std::vector<std::uint64_t>& words : levels_) {
      std::uint64_t& word = words[index / 64];
      word &= ~(std::uint64_t{1} << (index % 64));
      if (word != 0) {
        return;
      }
      index /= 64;
    }
  }
  // The set is not empty.
  std::uint64_t Max() const {
    KVFERRY_DCHECK(!is_empty());
    std::uint64_t index = 0;
    for (std::size_t level = levels_.size(); level-- > 0;) {
      index = index * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(levels_[level][index]));
    }
    return index;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace kvferry::replay
