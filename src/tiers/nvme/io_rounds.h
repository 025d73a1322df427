// SettleRound: the one place that decides whether a transfer is done, has failed or goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tiers/nvme/io_ring.h"

namespace kvferry::tiers {

// How often the kernel may do part of a transfer, or put it off, before it has failed.
inline constexpr std::uint32_t kIoRoundsMax = 8;

enum class RoundEnd : std::uint8_t {
  kDone,        // `op.status` is set.
  kAgain,       // The rest of the transfer is to be asked for.
  kAgainLater,  // As kAgain, after a pause: the kernel is short of something.
};

// Before the first round.
void StartRounds(IoOp& op) noexcept;

// What the next round asks for: the rest, from an aligned place on. Empty for a sync.
std::span<std::byte> RestOf(const IoOp& op) noexcept;
std::uint64_t RestOffset(const IoOp& op) noexcept;

// After a round that gave `result`, a count of bytes or a negative errno. Nothing of a read is a
// truncated file; a transfer that gets no further within kIoRoundsMax rounds has failed.
RoundEnd SettleRound(IoOp& op, std::int64_t result);

}  // namespace kvferry::tiers
