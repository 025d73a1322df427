// What all rings demand of an operation, and its text form.
#include "tiers/nvme/io_ring.h"

#include "base/assert.h"

namespace kvferry::tiers {
namespace {

bool IsAligned(std::uint64_t value) {
  return value % kIoAlignment == 0;
}

}  // namespace

Status CheckIoOp(const IoOp& op, std::size_t file_count) {
  KVFERRY_CHECK(op.sink != nullptr);
  if (op.file_index >= file_count) {
    return Status::Error(StatusCode::kInvalidArgument, Describe(op) + ": no such file");
  }
  if (op.kind == IoOp::Kind::kSyncData) {
    return Status::Ok();
  }
  const auto address = reinterpret_cast<std::uintptr_t>(op.buffer.data());
  if (!IsAligned(op.offset_bytes) || !IsAligned(op.buffer.size()) || !IsAligned(address)) {
    return Status::Error(StatusCode::kInvalidArgument, Describe(op) + ": not aligned");
  }
  if (op.buffer.empty() || op.buffer.size() > kIoBytesMax) {
    return Status::Error(StatusCode::kInvalidArgument, Describe(op) + ": empty or too long");
  }
  return Status::Ok();
}

std::string Describe(const IoOp& op) {
  const std::string file = " of file " + std::to_string(op.file_index);
  if (op.kind == IoOp::Kind::kSyncData) {
    return "sync" + file;
  }
  const std::string_view kind = op.kind == IoOp::Kind::kRead ? "read" : "write";
  return std::string(kind) + " of " + std::to_string(op.buffer.size()) + " bytes at " +
         std::to_string(op.offset_bytes) + file;
}

}  // namespace kvferry::tiers
