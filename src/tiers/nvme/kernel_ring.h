// KernelRing: what UringRing needs of io_uring, as a seam where tests stand in for the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "tiers/nvme/io_ring.h"

namespace kvferry::tiers {

// One round of an operation.
struct KernelRequest {
  IoOp* op = nullptr;         // Comes back with the end.
  std::span<std::byte> rest;  // Empty for a sync.
  std::uint64_t offset_bytes = 0;
};

struct KernelEnd {
  IoOp* op = nullptr;
  int result = 0;  // A count of bytes, or a negative errno.
};

// A submission queue and a completion queue. Thread-confined, Wake() excepted.
class KernelRing {
 public:
  KernelRing() = default;
  KernelRing(const KernelRing&) = delete;
  KernelRing& operator=(const KernelRing&) = delete;
  virtual ~KernelRing() = default;

  // Puts a request into the submission queue; false when that is full.
  virtual bool Prepare(const KernelRequest& request) = 0;
  // Hands prepared requests to the kernel, which may take fewer: how many, or a negative errno.
  // What it has not taken stays prepared.
  virtual int Enter() = 0;
  // Takes the next ends; how many, 0 when there are none. Never waits.
  virtual std::size_t TakeEnds(std::span<KernelEnd> ends) = 0;
  // Enter(), then waits until there is an end, a Wake() since the last wait, or `time_max` has
  // passed. May return early. As Enter().
  virtual int EnterAndWait(Duration time_max) = 0;
  virtual void Wake() noexcept = 0;
  virtual Status RegisterBuffer(std::span<std::byte> chunk) = 0;
};

}  // namespace kvferry::tiers
