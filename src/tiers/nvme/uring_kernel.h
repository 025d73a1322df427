// OpenUringKernel: the queues of io_uring, made in the best way that this kernel offers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kvferry/status.h"

#include "tiers/nvme/kernel_ring.h"

namespace kvferry::tiers {

// For operations on `files` (descriptors, borrowed), at most in_flight_max at a time. To be called
// on the thread that will use it: the kernel lets no other one submit. A forked child does not
// share the queues. kUnavailable with the errno where the kernel refuses io_uring or lacks what the
// ring needs of it (Linux 5.11).
Result<std::unique_ptr<KernelRing>> OpenUringKernel(std::span<const int> files,
                                                    std::uint32_t in_flight_max);

}  // namespace kvferry::tiers
