// Votes over the powers of two.
#include "replay/readers/block_size.h"

#include <algorithm>
#include <bit>

namespace kvferry::replay {
namespace {

// A bit for each size that fits.
std::uint32_t Fitting(std::uint64_t tokens, std::uint64_t ids) {
  std::uint32_t fitting = 0;
  for (int i = 0; i < BlockSizeVote::kSizes; ++i) {
    fitting |= FitsBlockSize(tokens, ids, std::uint64_t{1} << i) ? std::uint32_t{1} << i : 0;
  }
  return fitting;
}

}  // namespace

void BlockSizeVote::Add(std::uint64_t tokens, std::uint64_t ids) {
  const std::uint32_t fitting = Fitting(tokens, ids);
  if (fitting == 0) {
    return;
  }
  ++lines_;
  for (std::size_t i = 0; i < kSizes; ++i) {
    misses_[i] += (fitting >> i & 1U) != 0 ? 0U : 1U;
  }
}

bool BlockSizeVote::Narrow(std::uint64_t tokens, std::uint64_t ids) {
  const std::uint32_t fitting = Fitting(tokens, ids);
  if ((left_ & fitting) == 0) {
    return false;
  }
  left_ &= fitting;
  return true;
}

bool BlockSizeVote::Decide() {
  const std::uint64_t fewest = *std::min_element(misses_.begin(), misses_.end());
  left_ = 0;
  for (std::size_t i = 0; i < kSizes; ++i) {
    left_ |= misses_[i] == fewest ? 1U << i : 0U;
  }
  if (fewest > 0 && std::popcount(left_) > 1) {
    return false;
  }
  return lines_ > 0 && fewest * 2 <= lines_;
}

std::uint32_t BlockSizeVote::winner() const {
  return std::has_single_bit(left_) ? left_ : 0;
}

std::string BlockSizeVote::Candidates() const {
  std::string text;
  for (int i = 0; i < kSizes; ++i) {
    if ((left_ >> i & 1U) != 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(1U << i);
    }
  }
  return text;
}

bool BlockSizeVote::IsCandidate(std::uint32_t block_tokens) const {
  return std::has_single_bit(block_tokens) && (left_ & block_tokens) != 0;
}

}  // namespace kvferry::replay
