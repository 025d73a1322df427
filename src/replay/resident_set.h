// ResidentSet: which blocks of a trace one cell holds, and how far along a path.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kvferry/types.h"

#include "replay/trace.h"

namespace kvferry::replay {

// A byte an entry. Numbers along a chained path rise, so eight of them that span eight are
// neighbours, and one word says which of them are resident.
//
// Thread-compatible.
class ResidentSet {
 public:
  explicit ResidentSet(const Trace& trace)
      : is_resident_(trace.distinct_blocks()), paths_rise_(trace.is_chained()) {}

  std::uint64_t size() const { return size_; }
  bool contains(EntryIndex entry) const { return is_resident_[NumberOf(entry)] != 0; }

  // Absent before.
  void Insert(EntryIndex entry) {
    is_resident_[NumberOf(entry)] = 1;
    ++size_;
  }
  // Resident before.
  void Remove(EntryIndex entry) {
    is_resident_[NumberOf(entry)] = 0;
    --size_;
  }

  // Where the residents end that begin at position `begin`.
  std::size_t RunEnd(std::span<const EntryIndex> path, std::size_t begin) const {
    while (begin + kWord <= path.size() && WordAt(path, begin) == kAllResident) {
      begin += kWord;
    }
    while (begin < path.size() && contains(path[begin])) {
      ++begin;
    }
    return begin;
  }
  // Where the residents begin that end before position `end`.
  std::size_t RunBegin(std::span<const EntryIndex> path, std::size_t end) const {
    while (end > 0 && contains(path[end - 1])) {
      --end;
      while (end >= kWord && WordAt(path, end - kWord) == kAllResident) {
        end -= kWord;
      }
    }
    return end;
  }
  std::size_t CountOf(std::span<const EntryIndex> path) const {
    std::size_t count = 0;
    std::size_t position = 0;
    while (position < path.size()) {
      if (position + kWord <= path.size() && AreNeighbours(path, position)) {
        count += static_cast<std::size_t>(std::popcount(WordAt(path, position)));
        position += kWord;
        continue;
      }
      count += is_resident_[NumberOf(path[position])];
      ++position;
    }
    return count;
  }

 private:
  static constexpr std::size_t kWord = 8;
  static constexpr std::uint64_t kAllResident = 0x0101010101010101;

  static std::uint32_t NumberOf(EntryIndex entry) { return static_cast<std::uint32_t>(entry); }

  bool AreNeighbours(std::span<const EntryIndex> path, std::size_t begin) const {
    return paths_rise_ && NumberOf(path[begin + kWord - 1]) - NumberOf(path[begin]) == kWord - 1;
  }
  // The bytes of eight positions if they are neighbours, otherwise zero.
  std::uint64_t WordAt(std::span<const EntryIndex> path, std::size_t begin) const {
    std::uint64_t word = 0;
    if (AreNeighbours(path, begin)) {
      std::memcpy(&word, &is_resident_[NumberOf(path[begin])], kWord);
    }
    return word;
  }

  std::vector<std::uint8_t> is_resident_;
  std::uint64_t size_ = 0;
  bool paths_rise_;
};

}  // namespace kvferry::replay
