// ThreadsKernel: the kernel's queues, played by threads where the kernel refuses io_uring.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kvferry/status.h"

#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/kernel_ring.h"

namespace kvferry::bench {

// Requests are whole operations with a sink that is overwritten; an end is the operation's size, or
// EIO. Thread-confined, Wake() excepted.
class ThreadsKernel final : public tiers::KernelRing, public tiers::IoSink {
 public:
  explicit ThreadsKernel(std::unique_ptr<tiers::IoRing> ring) : ring_(std::move(ring)) {
    ended_.reserve(ring_->in_flight_max());
  }

  bool Prepare(const tiers::KernelRequest& request) override;
  int Enter() override { return 0; }  // Threads begin at once.
  std::size_t TakeEnds(std::span<tiers::KernelEnd> ends) override;
  int EnterAndWait(Duration time_max) override;
  void Wake() noexcept override { ring_->Wake(); }
  Status RegisterBuffer(std::span<std::byte> chunk) override {
    return ring_->RegisterBuffer(chunk);
  }
  void OnIoDone(tiers::IoOp& op) noexcept override { ended_.push_back(&op); }

 private:
  std::vector<tiers::IoOp*> ended_;  // Before ring_, which delivers to it to the last.
  std::unique_ptr<tiers::IoRing> ring_;
};

}  // namespace kvferry::bench
