// Construction of FIFO; the loops are in the header.
#include "policy/fifo_policy.h"

namespace kvferry::policy {

FifoPolicy::FifoPolicy(const PolicyOptions& options)
    : lists_(options.entries_max, 1), departed_(options) {}

}  // namespace kvferry::policy
