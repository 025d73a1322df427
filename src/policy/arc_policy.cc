// How a ghost hit moves ARC's target, and what is taken at creation.
#include "policy/arc_policy.h"

#include <algorithm>

namespace kvferry::policy {

ArcPolicy::ArcPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, kPlaces),
      place_(options.entries_max, kNowhere),
      capacity_(options.residents_max),
      remembered_max_(options.remembered_max == 0
                          ? options.residents_max
                          : std::min(options.remembered_max, options.residents_max)),
      departed_(options) {}

void ArcPolicy::Adapt(std::uint8_t ghost) {
  const auto b1_size = static_cast<double>(size_[kB1]);
  const auto b2_size = static_cast<double>(size_[kB2]);
  if (ghost == kB1) {
    target_ = std::min(static_cast<double>(capacity_), target_ + std::max(1.0, b2_size / b1_size));
  } else {
    target_ = std::max(0.0, target_ - std::max(1.0, b1_size / b2_size));
  }
}

}  // namespace kvferry::policy
