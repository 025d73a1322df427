// SimFaults: which faults the simulated drives, ring and manifest inject and how often, and counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"

namespace kvferry::sim {

enum class SimFault : std::uint8_t {
  kReadError,          // EIO.
  kWriteError,         // EIO; any sectors of it may be written.
  kNoSpace,            // ENOSPC of a write.
  kReadOnly,           // EROFS of a write.
  kSubmitFull,         // Submit says kResourceExhausted although there is room.
  kSubmitUnavailable,  // Submit says kUnavailable.
  kTransient,          // EAGAIN, EINTR or EBUSY; nothing is done.
  kCancelled,          // ECANCELED; a write is done in part.
  kShortTransfer,      // EIO after a first part of the transfer.
  kTruncatedRead,      // As if the file had ended.
  kTornWrite,          // Some sectors written, EIO reported.
  kTornWriteUnseen,    // Some sectors written, success reported.
  kLate,               // Ends up to a second later.
  kHeld,               // Never ends, until the ring's ReleaseHeld() or destruction.
  kBitRot,             // One bit of what is read has changed on the medium.
  kMisdirectedRead,    // Bytes of another place.
  kStaleRead,          // What was there before the last write.
  kMisdirectedWrite,   // Written to another place, success reported.
  kLostWrite,          // Not written, success reported.
  kSyncError,          // EIO; what was to be synced is partly lost, and the next sync succeeds.
  kDeviceWindow,       // The whole drive fails, is full, is read-only or stalls for a while.
  kBadPlace,           // A sector of what is read gives EIO from now on, until it is written.
  kBatchError,         // A batch of the manifest fails, and with it those behind it.
  kBatchLate,          // A batch of the manifest ends up to a second later.
};
inline constexpr std::size_t kSimFaultCount = 24;

// "read error" and so on; never null.
std::string_view ToString(SimFault fault) noexcept;

// What a fault may befall.
enum class SimTarget : std::uint8_t { kRead, kWrite, kSync, kBatch };
bool Befalls(SimFault fault, SimTarget target) noexcept;

// How often an operation meets a fault, and with which weight which one.
struct SimFaults {
  double odds = 0;  // An operation's chance to meet one, whichever.
  std::array<std::uint32_t, kSimFaultCount> weights{};

  static SimFaults None() { return {}; }
  static SimFaults Rare();     // 1 operation in 1,000.
  static SimFaults Often();    // 1 in 128.
  static SimFaults Hostile();  // 1 in 32.
  // This one alone.
  static SimFaults Only(SimFault fault, double odds);

  // All weights as they are, without this one.
  SimFaults Without(SimFault fault) const;
  // The fault that the next operation meets, if any. Takes one or two numbers from `random`.
  std::optional<SimFault> Draw(SimTarget target, Random& random) const;
};

// How many faults of each kind were injected.
//
// Thread-compatible.
class FaultCounts {
 public:
  void Add(SimFault fault) { ++counts_.at(static_cast<std::size_t>(fault)); }
  std::uint64_t of(SimFault fault) const { return counts_.at(static_cast<std::size_t>(fault)); }
  std::uint64_t total() const;
  FaultCounts& operator+=(const FaultCounts& other);
  // "read error 3, late 1": those that happened; "none".
  std::string ToString() const;
  bool operator==(const FaultCounts&) const = default;

 private:
  std::array<std::uint64_t, kSimFaultCount> counts_{};
};

// All kinds, for loops.
std::array<SimFault, kSimFaultCount> AllSimFaults();

}  // namespace kvferry::sim
