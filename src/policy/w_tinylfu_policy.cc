// What W-TinyLFU takes at creation, and how its counts age.
#include "policy/w_tinylfu_policy.h"

#include <algorithm>

namespace kvferry::policy {

WTinyLfuPolicy::WTinyLfuPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, kPlaces),
      place_(options.entries_max, kNowhere),
      count_(options.entries_max, 0),
      window_max_(std::max(1U, options.residents_max / kWindowDivisor)),
      protected_max_(static_cast<std::uint32_t>(std::uint64_t{options.residents_max - window_max_} *
                                                kProtectedPercent / 100)),
      sample_max_(std::uint64_t{options.residents_max} * kSampleMultiple),
      remembered_max_(options.remembered_max != 0 ? options.remembered_max : sample_max_),
      departed_(options) {}

void WTinyLfuPolicy::HalveCounts() {
  for (std::uint8_t& count : count_) {
    count = static_cast<std::uint8_t>(count >> 1);
  }
  sampled_count_ /= 2;
}

}  // namespace kvferry::policy
