// BlockSizeVote: how many tokens a block of a trace has, told from its lines where nobody says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kvferry/status.h"

namespace kvferry::replay {

// Whether `ids` are as many as `tokens` in blocks of `block_tokens` have, with or without an id for
// a last block that is not full.
constexpr bool FitsBlockSize(std::uint64_t tokens, std::uint64_t ids, std::uint64_t block_tokens) {
  return ids == tokens / block_tokens || ids == (tokens + block_tokens - 1) / block_tokens;
}

// Counts, for each power of two, the lines that it does not fit. Lines that no size fits have no
// vote.
//
// Thread-compatible.
class BlockSizeVote {
 public:
  static constexpr int kSizes = 21;  // 1 .. 2^20 tokens.

  void Add(std::uint64_t tokens, std::uint64_t ids);
  // Drops every size that does not fit, unless that leaves none: then false, and nothing changes.
  bool Narrow(std::uint64_t tokens, std::uint64_t ids);
  // Keeps the sizes that fit the most lines; false where that is no size at all, because the best
  // ones are several that contradict each other or fit less than half of the lines.
  bool Decide();
  // The one size left, or 0.
  std::uint32_t winner() const;
  // "16, 32" for a message: the sizes left.
  std::string Candidates() const;
  bool IsCandidate(std::uint32_t block_tokens) const;

 private:
  std::array<std::uint64_t, kSizes> misses_{};
  std::uint64_t lines_ = 0;                                // Those that some size fits.
  std::uint32_t left_ = (std::uint32_t{1} << kSizes) - 1;  // A bit a size.
};

}  // namespace kvferry::replay
