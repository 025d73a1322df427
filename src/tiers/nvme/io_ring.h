// IoRing: the seam behind which reads, writes and flushes of the drives happen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "kvferry/status.h"
#include "kvferry/types.h"

namespace kvferry::tiers {

// What offsets, lengths and buffer addresses of reads and writes are multiples of.
inline constexpr std::size_t kIoAlignment = 4096;
// The longest read or write: the largest segment.
inline constexpr std::size_t kIoBytesMax = std::size_t{1} << 30;

struct IoOp;

// Is told the end of operations. Must live until the last of its operations has ended.
class IoSink {
 public:
  virtual ~IoSink() = default;

  // Runs inside IoRing::Reap() or the ring's destructor, exactly once per operation that Submit
  // took, with `op.status` set; from then on the operation and its buffer are the caller's again.
  // Within Reap() it may submit further operations, this one included.
  virtual void OnIoDone(IoOp& op) noexcept = 0;
};

// One operation. The caller owns it, fills the first part, and neither touches nor moves it from
// Submit until OnIoDone.
struct IoOp {
  enum class Kind : std::uint8_t {
    kRead,
    kWrite,
    // fdatasync of the file: once it has succeeded, every write to the file that had ended before
    // this was submitted survives a power cut. Writes still in flight then are not covered.
    kSyncData,
  };

  Kind kind = Kind::kRead;
  std::uint32_t file_index = 0;    // Into the files that the ring was opened with.
  std::uint64_t offset_bytes = 0;  // A multiple of kIoAlignment; ignored by a sync.
  std::span<std::byte> buffer;  // Aligned likewise, at least one page; ignored by a sync. Borrowed.
  IoSink* sink = nullptr;       // Borrowed; not null.

  // Ok, or what io_errors.h classifies. After an error a read's buffer holds anything, and any part
  // of a write may be on the drive.
  Status status;

  // For the ring while the operation is in flight.
  struct InFlight {
    IoOp* next = nullptr;
    std::uint64_t mark = 0;
    std::uint32_t done_bytes = 0;
    std::uint32_t rounds = 0;
    std::uint32_t entry = 0;
  };
  InFlight in_flight;
};

// A queue of file operations in flight, over files it was opened with. Implementations: io_uring, a
// pool of threads where the kernel refuses io_uring, and a simulated one with seeded delays,
// reordering and faults. Nothing is said about the order in which operations happen or end.
//
// A transfer is whole or has failed: the ring itself goes on after short transfers and passing
// refusals of the kernel. At most in_flight_max() operations are in flight; nothing grows.
//
// Thread-confined to the mover thread, Wake() excepted.
class IoRing {
 public:
  IoRing() = default;
  IoRing(const IoRing&) = delete;
  IoRing& operator=(const IoRing&) = delete;
  // Waits until everything in flight has ended and delivers it. Who must not wait for a stalled
  // drive leaks the ring, and with it the operations and buffers in flight.
  virtual ~IoRing() = default;

  // Takes the operation, or leaves it to the caller with no call of its sink to come:
  // kResourceExhausted: nothing is free; reap, then try again. kUnavailable: the ring is out of
  // order for now; try later. kInvalidArgument: no such file, or misaligned,
  // empty or longer than kIoBytesMax.
  Status Submit(IoOp& op) {
    Status taken = Take(op);
    has_refused_ = has_refused_ || !taken.ok();
    return taken;
  }
  // Whether Submit has refused something since this was last asked: perhaps no end of an operation
  // will bring about the next attempt.
  bool ForgetRefusals() noexcept { return std::exchange(has_refused_, false); }

  // Hands what was submitted to the kernel and delivers what has ended; how many. Never waits.
  // `now` times the pauses before another attempt.
  virtual std::size_t Reap(Instant now) = 0;

  virtual std::uint32_t in_flight() const noexcept = 0;
  virtual std::uint32_t in_flight_max() const noexcept = 0;

  // The one place where the mover sleeps: until there is something to reap, Wake() was called since
  // the last wait, or `deadline` has come. May return early. Hands over what was submitted, but
  // delivers nothing.
  virtual void WaitUntil(Instant deadline) = 0;

  // Ends the current wait, or the next one if there is none. Thread-safe.
  virtual void Wake() noexcept = 0;

  // Tells the ring that operations will often use parts of `chunk` (at most 1 GiB), which must stay
  // mapped until the ring is gone. Takes up to some milliseconds. Only a matter of speed:
  // kUnavailable or kResourceExhausted where the ring has no use for it or the limits do not allow
  // it, and everything works as before.
  virtual Status RegisterBuffer(std::span<std::byte> chunk) = 0;

 private:
  virtual Status Take(IoOp& op) = 0;  // As of Submit.

  bool has_refused_ = false;
};

// kInvalidArgument unless `op` is well-formed for a ring of `file_count` files; what every Submit
// begins with.
Status CheckIoOp(const IoOp& op, std::size_t file_count);

// "read of 8192 bytes at 4096 of file 0", for messages.
std::string Describe(const IoOp& op);

}  // namespace kvferry::tiers
