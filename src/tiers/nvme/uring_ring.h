// UringRing: IoRing over io_uring's queues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/kernel_ring.h"
#include "tiers/nvme/op_queue.h"

namespace kvferry::tiers {

// Operations wait in a row of the ring's own until the kernel's queue has room, and for another
// round where the kernel has done only part; so what the kernel takes at a time does not matter.
//
// When the kernel says that it has lost an end (EBADR), or that the ring is going down, the ring is
// out of order for good: Submit gives kUnavailable, and what still comes is delivered. Open another
// one. Buffers of operations that do not come back are the kernel's until the process ends.
//
// Thread-confined to the thread that has made the KernelRing, Wake() excepted.
class UringRing final : public IoRing {
 public:
  // The completion queue of `kernel` has room for in_flight_max ends.
  UringRing(std::unique_ptr<KernelRing> kernel,
            std::uint32_t file_count,
            std::uint32_t in_flight_max);
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;
  // Of a ring that is out of order, closes the kernel's and ends what has not come with ECANCELED.
  ~UringRing() override;

  std::size_t Reap(Instant now) override;
  std::uint32_t in_flight() const noexcept override;
  std::uint32_t in_flight_max() const noexcept override;
  void WaitUntil(Instant deadline) override;
  void Wake() noexcept override { kernel_->Wake(); }
  Status RegisterBuffer(std::span<std::byte> chunk) override;

 private:
  static constexpr std::size_t kEndsAtOnce = 64;

  Status Take(IoOp& op) override;
  void HandOver(Instant now);
  void Judge(int entered);
  bool Settle(const KernelEnd& end, Instant now);
  void Deliver(IoOp& op);

  std::unique_ptr<KernelRing> kernel_;
  std::uint32_t file_count_;
  std::vector<IoOp*> entries_;               // What is in flight; null where free.
  std::vector<std::uint32_t> free_entries_;  // The last is taken next.
  OpQueue waiting_;                          // For room, or for the end of a pause.
  bool is_out_of_order_ = false;
  bool is_closing_ = false;
};

}  // namespace kvferry::tiers
