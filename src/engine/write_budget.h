// WriteBudget: how many bytes a day the drives are to be spared for.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "kvferry/types.h"

namespace kvferry::engine {

// A day's bytes come evenly over the day, and what was not used is kept for an hour: so bursts
// pass, and a day's end does not bring a pause of hours. Without a budget it only counts.
//
// For the mover thread.
class WriteBudget {
 public:
  static constexpr std::uint64_t kKeptHours = 1;

  explicit WriteBudget(std::uint64_t bytes_per_day) : bytes_per_day_(bytes_per_day) {}

  // Whether so many bytes may be written now. Times must not go back.
  bool Allows(Instant now, std::uint64_t bytes) {
    if (bytes_per_day_ == 0) {
      return true;
    }
    const double kept_max = static_cast<double>(bytes_per_day_ * kKeptHours) / 24;
    if (is_started_) {
      const std::chrono::duration<double> passed = now - filled_at_;
      kept_ =
          std::min(kept_max, kept_ + passed.count() * static_cast<double>(bytes_per_day_) / 86'400);
    } else {
      is_started_ = true;
      kept_ = kept_max;
    }
    filled_at_ = now;
    return kept_ >= static_cast<double>(std::min<std::uint64_t>(bytes, bytes_per_day_ / 24));
  }
  // They are written, whether or not they were allowed.
  void Spend(std::uint64_t bytes) {
    kept_ -= static_cast<double>(bytes);
    bytes_written_ += bytes;
  }
  std::uint64_t bytes_written() const noexcept { return bytes_written_; }

 private:
  std::uint64_t bytes_per_day_;
  bool is_started_ = false;
  double kept_ = 0;
  Instant filled_at_;
  std::uint64_t bytes_written_ = 0;
};

}  // namespace kvferry::engine
