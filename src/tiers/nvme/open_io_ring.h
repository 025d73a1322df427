// OpenIoRing: the best ring that this machine allows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kvferry/status.h"

#include "tiers/nvme/io_ring.h"

namespace kvferry::tiers {

enum class IoBackend : std::uint8_t {
  kAuto,     // io_uring, and threads where the kernel refuses it.
  kUring,    // Or an error.
  kThreads,  // Whatever the kernel offers.
};

struct IoRingOptions {
  static constexpr std::uint32_t kInFlightMax = 4096;
  static constexpr std::uint32_t kThreadsMax = 256;

  IoBackend backend = IoBackend::kAuto;
  std::uint32_t in_flight_max = 128;  // 1 .. kInFlightMax.
  std::uint32_t thread_count = 8;     // Of the pool; 1 .. kThreadsMax.
};

struct OpenedIoRing {
  std::unique_ptr<IoRing> ring;
  IoBackend backend = IoBackend::kAuto;  // The one it came to.
  std::string warning;                   // Why it is not io_uring although it might be; else empty.
};

// For operations on `files` (descriptors, borrowed until the ring is gone). To be called on the
// thread that will use the ring. kInvalidArgument for options out of range, otherwise what the
// chosen backend says: kUnavailable or kResourceExhausted.
Result<OpenedIoRing> OpenIoRing(std::span<const int> files, const IoRingOptions& options);

}  // namespace kvferry::tiers
