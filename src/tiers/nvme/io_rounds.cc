// Rounds of a transfer: only aligned progress counts, since direct I/O goes on from nowhere else.
#include "tiers/nvme/io_rounds.h"

#include <cerrno>

#include "tiers/nvme/io_errors.h"

namespace kvferry::tiers {
namespace {

RoundEnd Finish(IoOp& op, Status status) {
  op.status = std::move(status);
  return RoundEnd::kDone;
}

bool IsPassing(int error_number) {
  return error_number == EAGAIN || error_number == EINTR || error_number == EBUSY ||
         error_number == ECANCELED || error_number == ENOMEM || error_number == ENOBUFS;
}

RoundEnd SettleError(IoOp& op, int error_number) {
  ++op.in_flight.rounds;
  if (!IsPassing(error_number) || op.in_flight.rounds >= kIoRoundsMax) {
    return Finish(op, IoError(Describe(op), error_number));
  }
  return error_number == EINTR ? RoundEnd::kAgain : RoundEnd::kAgainLater;
}

}  // namespace

void StartRounds(IoOp& op) noexcept {
  op.in_flight = {};
  op.status = Status::Ok();
}

std::span<std::byte> RestOf(const IoOp& op) noexcept {
  if (op.kind == IoOp::Kind::kSyncData) {
    return {};
  }
  return op.buffer.subspan(op.in_flight.done_bytes);
}

std::uint64_t RestOffset(const IoOp& op) noexcept {
  return op.offset_bytes + op.in_flight.done_bytes;
}

RoundEnd SettleRound(IoOp& op, std::int64_t result) {
  if (result < 0) {
    return SettleError(op, static_cast<int>(-result));
  }
  if (op.kind == IoOp::Kind::kSyncData) {
    return Finish(op, Status::Ok());
  }
  const auto moved = static_cast<std::uint64_t>(result);
  const std::uint64_t rest = RestOf(op).size();
  if (moved == rest) {
    return Finish(op, Status::Ok());
  }
  if (moved > rest) {
    return Finish(op, IoError(Describe(op) + ": more bytes than were asked for", EIO));
  }
  const bool is_read = op.kind == IoOp::Kind::kRead;
  if (moved == 0 && is_read) {
    return Finish(op, TruncatedError(Describe(op)));
  }
  const auto aligned = static_cast<std::uint32_t>(moved - (moved % kIoAlignment));
  op.in_flight.done_bytes += aligned;
  ++op.in_flight.rounds;
  if (op.in_flight.rounds < kIoRoundsMax) {
    return RoundEnd::kAgain;
  }
  // A file whose length is no multiple of a page gives the same part of its last one every time.
  if (is_read && aligned == 0) {
    return Finish(op, TruncatedError(Describe(op)));
  }
  return Finish(op, IoError(Describe(op) + ": only short transfers", EIO));
}

}  // namespace kvferry::tiers
