// TransferScheduler: in which order transfers start, and how many bytes each arrow has in flight.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvferry/types.h"

namespace kvferry::engine {

// What waits longest comes last.
enum class TransferClass : std::uint8_t { kDemand, kDeadlinePrefetch, kPromotion, kWriteBack };
inline constexpr std::size_t kTransferClassCount = 4;

enum class Arrow : std::uint8_t {
  kOffloadHostToNvme,
  kOnboardNvmeToHost,
  kOffloadHbmToHost,
  kOnboardHostToHbm,
};
inline constexpr std::size_t kArrowCount = 4;

// Caps the bytes in flight of one arrow at two milliseconds of its measured bandwidth, and never
// below two transfers. The bandwidth is the best of the last windows in which the arrow was busy
// throughout: a window that was short of work says nothing about the drive. Between the last end
// and a start at the same time, in one step, it was not idle.
//
// For the mover thread.
class ArrowMeter {
 public:
  static constexpr std::uint64_t kBytesAtStart = std::uint64_t{16} << 20;
  static constexpr std::uint64_t kBytesFloor = std::uint64_t{4} << 20;
  static constexpr Duration kWindow = std::chrono::milliseconds(50);
  static constexpr Duration kInFlight = std::chrono::milliseconds(2);
  static constexpr std::size_t kWindows = 8;

  bool HasRoom(std::uint64_t bytes) const;
  void Start(Instant now, std::uint64_t bytes);
  void End(Instant now, std::uint64_t bytes);

  std::uint64_t bytes_in_flight() const noexcept { return bytes_in_flight_; }
  std::uint64_t bytes_cap() const noexcept { return bytes_cap_; }

 private:
  std::uint64_t bytes_cap_ = kBytesAtStart;
  std::uint64_t bytes_in_flight_ = 0;
  std::uint32_t transfers_in_flight_ = 0;
  // The window that runs.
  Instant window_start_;
  Instant idle_since_;  // Where nothing is in flight.
  std::uint64_t window_bytes_ = 0;
  bool is_window_busy_ = false;
  // Bytes a second of the last busy windows.
  std::array<double, kWindows> rates_{};
  std::size_t rate_count_ = 0;
};

// Queues of transfers by class, the earliest deadline first in each. A transfer is in one queue at
// most. All memory is taken at creation.
//
// For the mover thread.
class TransferScheduler {
 public:
  explicit TransferScheduler(std::uint32_t transfers_max);

  void Push(TransferClass of, std::uint32_t transfer, Instant deadline);
  // The next of the class, without taking it; it must not be empty.
  std::uint32_t Front(TransferClass of) const;
  void Pop(TransferClass of);
  // Takes out a transfer that is in the queue, wherever it stands.
  void Remove(TransferClass of, std::uint32_t transfer);
  bool is_empty(TransferClass of) const { return queues_[static_cast<std::size_t>(of)].empty(); }

  ArrowMeter& meter(Arrow arrow) { return meters_[static_cast<std::size_t>(arrow)]; }
  const ArrowMeter& meter(Arrow arrow) const { return meters_[static_cast<std::size_t>(arrow)]; }

 private:
  struct Waiting {
    Instant deadline;
    std::uint64_t order = 0;  // First come, first served among equal deadlines.
    std::uint32_t transfer = 0;
  };
  static bool ComesLater(const Waiting& a, const Waiting& b);

  std::array<std::vector<Waiting>, kTransferClassCount> queues_;  // Heaps.
  std::array<ArrowMeter, kArrowCount> meters_;
  std::uint64_t order_ = 0;
};

}  // namespace kvferry::engine
