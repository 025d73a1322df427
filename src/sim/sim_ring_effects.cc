// What a simulated operation does to the medium and to its buffer when it ends.
#include <cerrno>

#include "sim/sim_ring.h"
#include "tiers/nvme/io_errors.h"

namespace kvferry::sim {

using tiers::IoError;
using tiers::IoOp;
using tiers::TruncatedError;

Status SimRing::Carry(const Pending& pending, Instant now) {
  const IoOp& op = *pending.op;
  if (!has_power_) {
    return IoError(Describe(op) + ": simulated power cut", ENODEV);
  }
  if (const std::optional<Status> refused = CarryByWindow(op, now)) {
    return *refused;
  }
  if (pending.fault == SimFault::kTransient) {
    constexpr std::array<int, 3> kErrors = {EAGAIN, EINTR, EBUSY};
    return IoError(Describe(op), kErrors.at(random_.Below(kErrors.size())));
  }
  if (pending.fault == SimFault::kCancelled && op.kind != IoOp::Kind::kWrite) {
    return IoError(Describe(op), ECANCELED);
  }
  switch (op.kind) {
    case IoOp::Kind::kRead:
      return CarryRead(pending);
    case IoOp::Kind::kWrite:
      return CarryWrite(pending);
    case IoOp::Kind::kSyncData:
      break;
  }
  return CarrySync(pending);
}

std::optional<Status> SimRing::CarryByWindow(const IoOp& op, Instant now) {
  const File& file = files_.at(op.file_index);
  if (file.window_end <= now) {
    return std::nullopt;
  }
  switch (file.window) {
    case SimWindow::kErrors:
      return IoError(Describe(op), EIO);
    case SimWindow::kGone:
      return IoError(Describe(op), ENXIO);
    case SimWindow::kNoSpace:
    case SimWindow::kReadOnly:
      if (op.kind == IoOp::Kind::kWrite) {
        return IoError(Describe(op), file.window == SimWindow::kNoSpace ? ENOSPC : EROFS);
      }
      return std::nullopt;
    case SimWindow::kStalled:
      return std::nullopt;
  }
  return std::nullopt;
}

Status SimRing::CarryRead(const Pending& pending) {
  const IoOp& op = *pending.op;
  SimDisk& disk = DiskOf(op);
  const bool is_inside = op.offset_bytes <= disk.size_bytes() &&
                         op.buffer.size() <= disk.size_bytes() - op.offset_bytes;
  if (!is_inside || pending.fault == SimFault::kTruncatedRead) {
    return TruncatedError(Describe(op));
  }
  if (pending.fault == SimFault::kBadPlace) {
    const std::uint64_t sectors = op.buffer.size() / SimDisk::kSectorBytes;
    disk.MakeBad(op.offset_bytes + random_.Below(sectors) * SimDisk::kSectorBytes);
  }
  if (pending.fault == SimFault::kReadError ||
      !disk.IsReadable(op.offset_bytes, op.buffer.size())) {
    return IoError(Describe(op), EIO);
  }
  if (pending.fault == SimFault::kShortTransfer) {
    return CarryShort(op, EIO);
  }
  if (pending.fault == SimFault::kStaleRead) {
    disk.ReadStale(op.offset_bytes, op.buffer);
    return Status::Ok();
  }
  if (pending.fault == SimFault::kBitRot) {
    disk.FlipBit((op.offset_bytes * 8) + random_.Below(std::uint64_t{op.buffer.size()} * 8));
  }
  const bool is_misdirected = pending.fault == SimFault::kMisdirectedRead;
  disk.Read(is_misdirected ? OtherPlace(op) : op.offset_bytes, op.buffer);
  return Status::Ok();
}

Status SimRing::CarryWrite(const Pending& pending) {
  const IoOp& op = *pending.op;
  SimDisk& disk = DiskOf(op);
  const bool is_inside = op.offset_bytes <= disk.size_bytes() &&
                         op.buffer.size() <= disk.size_bytes() - op.offset_bytes;
  if (!is_inside || pending.fault == SimFault::kNoSpace) {
    return IoError(Describe(op), ENOSPC);
  }
  if (pending.fault == SimFault::kReadOnly) {
    return IoError(Describe(op), EROFS);
  }
  if (pending.fault == SimFault::kShortTransfer) {
    return CarryShort(op, EIO);
  }
  if (pending.fault == SimFault::kLostWrite) {
    return Status::Ok();
  }
  if (pending.fault == SimFault::kMisdirectedWrite) {
    disk.Write(OtherPlace(op), op.buffer);
    return Status::Ok();
  }
  if (pending.fault == SimFault::kTornWriteUnseen) {
    disk.WriteTorn(op.offset_bytes, op.buffer, random_);
    return Status::Ok();
  }
  if (pending.fault == SimFault::kTornWrite || pending.fault == SimFault::kWriteError ||
      pending.fault == SimFault::kCancelled) {
    disk.WriteTorn(op.offset_bytes, op.buffer, random_);
    return IoError(Describe(op), pending.fault == SimFault::kCancelled ? ECANCELED : EIO);
  }
  disk.Write(op.offset_bytes, op.buffer);
  return Status::Ok();
}

Status SimRing::CarrySync(const Pending& pending) {
  const IoOp& op = *pending.op;
  if (pending.fault == SimFault::kSyncError) {
    DiskOf(op).FailSync(pending.write_point, random_);
    return IoError(Describe(op), EIO);
  }
  DiskOf(op).Sync(pending.write_point);
  return Status::Ok();
}

Status SimRing::CarryShort(const IoOp& op, int error_number) {
  const std::uint64_t sectors = op.buffer.size() / SimDisk::kSectorBytes;
  const auto length = static_cast<std::size_t>(random_.Below(sectors) * SimDisk::kSectorBytes);
  if (op.kind == IoOp::Kind::kRead) {
    DiskOf(op).Read(op.offset_bytes, op.buffer.first(length));
  } else {
    DiskOf(op).Write(op.offset_bytes, op.buffer.first(length));
  }
  return IoError(Describe(op) + ": only " + std::to_string(length) + " bytes", error_number);
}

std::uint64_t SimRing::OtherPlace(const IoOp& op) {
  const std::uint64_t places = (DiskOf(op).size_bytes() - op.buffer.size()) / tiers::kIoAlignment;
  return random_.Between(0, places) * tiers::kIoAlignment;
}

}  // namespace kvferry::sim
