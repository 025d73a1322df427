// What S3-FIFO takes at creation.
#include "policy/s3_fifo_policy.h"

#include <algorithm>

namespace kvferry::policy {

S3FifoPolicy::S3FifoPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, kPlaces),
      state_(options.entries_max, kNowhere << kPlaceShift),
      small_max_(std::max(1U, options.residents_max / kSmallDivisor)),
      main_max_(options.residents_max - small_max_),
      remembered_max_(options.remembered_max != 0 ? options.remembered_max
                                                  : std::max(1U, main_max_)),
      departed_(options) {}

}  // namespace kvferry::policy
