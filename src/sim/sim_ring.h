// SimRing: IoRing over simulated drives in virtual time, with seeded delays, reordering and faults.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/clock.h"
#include "base/random.h"
#include "sim/sim_disk.h"
#include "sim/sim_faults.h"
#include "tiers/nvme/io_ring.h"

namespace kvferry::sim {

// How fast a simulated drive is. An operation takes its turn at the drive's bandwidth, then between
// half its latency and, rarely, several times as much.
struct SimTiming {
  Duration read_latency = std::chrono::microseconds(80);
  Duration write_latency = std::chrono::microseconds(30);
  Duration sync_latency = std::chrono::microseconds(500);
  std::uint64_t bytes_per_second = 3'000'000'000;
};

struct SimRingOptions {
  std::uint64_t seed = 1;
  std::uint32_t in_flight_max = 64;
  std::uint32_t held_max = 2;  // Operations that never end; a further one is only late.
  SimTiming timing;
  SimFaults faults;
};

// What a whole drive does for a while.
enum class SimWindow : std::uint8_t {
  kErrors,    // EIO, whatever is asked.
  kGone,      // ENXIO, whatever is asked.
  kNoSpace,   // ENOSPC to writes.
  kReadOnly,  // EROFS to writes.
  kStalled,   // Nothing ends before the window does.
};

// File i of the ring is disk i. The same seed, options and calls give the same run. A buffer is
// read, and the medium changed, when an operation ends; a read's buffer holds garbage until then.
//
// Time is a ManualClock's: Reap() delivers what is due at its `now`, WaitUntil() moves the clock to
// the next event or the deadline, whichever comes first. Who drives more than this ring moves the
// clock itself, to the earliest of all next events. Thread-confined, Wake() excepted.
class SimRing final : public tiers::IoRing {
 public:
  // The disks and the clock are borrowed until the ring is gone.
  SimRing(const std::vector<SimDisk*>& disks, ManualClock& clock, const SimRingOptions& options);
  SimRing(const SimRing&) = delete;
  SimRing& operator=(const SimRing&) = delete;
  // Ends at once whatever is in flight, held or not.
  ~SimRing() override;

  std::size_t Reap(Instant now) override;
  std::uint32_t in_flight() const noexcept override;
  std::uint32_t in_flight_max() const noexcept override { return options_.in_flight_max; }
  void WaitUntil(Instant deadline) override;
  void Wake() noexcept override { is_woken_.store(true); }
  // Has no use for it.
  Status RegisterBuffer(std::span<std::byte> chunk) override;

  // When the next operation is due; nothing while none is, held ones apart.
  std::optional<Instant> NextEventTime() const;

  void SetFaults(const SimFaults& faults) { options_.faults = faults; }
  // The operation with this number, as submitted_count() counts, meets `fault`, and no drawn one. A
  // fault that cannot befall it is left out.
  void InjectAt(std::uint64_t submit_number, SimFault fault);
  // Calls of Submit so far that were well-formed, refused ones included.
  std::uint64_t submitted_count() const noexcept { return submitted_count_; }
  const FaultCounts& fault_counts() const noexcept { return fault_counts_; }

  // Replaces the file's window; one that has passed has no effect.
  void StartWindow(std::uint32_t file_index, SimWindow window, Instant until);
  std::size_t held_count() const noexcept { return held_.size(); }
  // Makes what is held due now; how many.
  std::size_t ReleaseHeld();

  // The power of all drives goes: of writes in flight any sectors may be written, unsynced ones may
  // be lost, and from now on every operation, those in flight included, ends with ENODEV and does
  // nothing. Once a ring; the disks are ready for another one.
  void PowerCut(Random& random);

 private:
  struct Pending {
    tiers::IoOp* op = nullptr;
    std::optional<SimFault> fault;
    std::uint64_t write_point = 0;  // Of the disk, when a sync was asked for.
  };
  struct File {
    SimDisk* disk = nullptr;
    Instant busy_until;
    SimWindow window = SimWindow::kErrors;
    Instant window_end;
  };
  using EventKey = std::pair<Instant, std::uint64_t>;  // The second part keeps keys apart.

  Status Take(tiers::IoOp& op) override;
  std::optional<SimFault> FaultOfNext(const tiers::IoOp& op);
  Status Refuse(SimFault fault);
  Instant DueTime(const tiers::IoOp& op, Instant now);
  void Schedule(Instant due, const Pending& pending);
  void StartRandomWindow(File& file, Instant now);

  Status Carry(const Pending& pending, Instant now);
  std::optional<Status> CarryByWindow(const tiers::IoOp& op, Instant now);
  Status CarryRead(const Pending& pending);
  Status CarryWrite(const Pending& pending);
  Status CarrySync(const Pending& pending);
  Status CarryShort(const tiers::IoOp& op, int error_number);
  SimDisk& DiskOf(const tiers::IoOp& op) { return *files_.at(op.file_index).disk; }
  std::uint64_t OtherPlace(const tiers::IoOp& op);

  SimRingOptions options_;
  ManualClock& clock_;
  Random random_;
  std::vector<File> files_;
  std::map<EventKey, Pending> events_;
  std::vector<Pending> held_;
  std::map<std::uint64_t, SimFault> injections_;
  std::uint64_t submitted_count_ = 0;
  std::uint64_t event_count_ = 0;
  FaultCounts fault_counts_;
  bool has_power_ = true;
  bool is_closing_ = false;
  std::atomic<bool> is_woken_ = false;
};

}  // namespace kvferry::sim
