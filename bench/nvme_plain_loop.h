// PlainLoop: the bound of the NVMe arrows, a bare loop of direct reads or writes and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/histogram.h"
#include "bench/slice_pairs.h"
#include "engine/transfer_scheduler.h"
#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/kernel_ring.h"
#include "tiers/nvme/open_io_ring.h"

namespace kvferry::bench {

// Blocks go to or come from their places in the file in order, from or into slots in order, both in
// a circle. The queues are made with the tier's flags (its own kernel ring, without what it has
// around that), slots are registered with them as the tier does it, and the bytes in flight obey
// the tier's own rule. So it differs from the tier's arrow in what that does besides.
//
// Thread-confined to the thread that has opened it.
class PlainLoop {
  struct Token {};  // Only Open can name it.

 public:
  struct Options {
    int file = -1;                       // Opened for direct I/O; borrowed.
    std::span<std::byte> memory;         // Slots, one after another; borrowed.
    std::vector<std::uint64_t> offsets;  // Where blocks lie in the file.
    std::uint32_t block_bytes = 0;       // A multiple of 4 KiB.
    std::uint32_t in_flight_max = 128;
    tiers::IoBackend backend = tiers::IoBackend::kAuto;
  };
  // As long as `time` has not passed and fewer than `blocks_max` were begun, another one is.
  struct Until {
    Duration time = Duration::max();
    std::uint64_t blocks_max = ~std::uint64_t{0};
  };

  // kInvalidArgument for options that do not fit together; otherwise as OpenIoRing.
  static Result<std::unique_ptr<PlainLoop>> Open(const Options& options);

  PlainLoop(Token token, const Options& options);
  PlainLoop(const PlainLoop&) = delete;
  PlainLoop& operator=(const PlainLoop&) = delete;
  ~PlainLoop() = default;  // Nothing is in flight between calls of Run.

  // Goes on with these places; refused as by Open.
  Status SetOffsets(std::vector<std::uint64_t> offsets);

  // Ends when all that was begun has ended. kIoError, errno attached, for the first that failed or
  // stayed short.
  Result<Slice> Run(tiers::IoOp::Kind kind, const Until& until);

  // Of single reads and writes in nanoseconds, since cleared.
  Histogram& latencies() noexcept { return latencies_; }
  tiers::IoBackend backend() const noexcept { return backend_; }

 private:
  struct Op : tiers::IoOp {
    Instant start;
    std::uint32_t refusals = 0;
  };

  double CpuSeconds() const;
  void Begin(tiers::IoOp::Kind kind, Instant now);
  void Prepare(Op& op);
  void End(const tiers::KernelEnd& end, Instant now);

  Options options_;
  tiers::IoBackend backend_ = tiers::IoBackend::kAuto;
  std::unique_ptr<tiers::KernelRing> kernel_;
  engine::ArrowMeter read_meter_;
  engine::ArrowMeter write_meter_;
  std::vector<Op> ops_;
  std::vector<Op*> free_;
  std::size_t next_offset_ = 0;
  std::size_t next_slot_ = 0;
  std::uint64_t ended_bytes_ = 0;
  Status failure_;
  Histogram latencies_;
};

}  // namespace kvferry::bench
