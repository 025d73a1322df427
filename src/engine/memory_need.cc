// Memory beyond the limit would be granted, and the process ended at the touch of a page too many.
#include "engine/memory_need.h"

#include <string>

#include "base/bytes.h"
#include "engine/nvme_opening.h"

namespace kvferry::engine {
namespace {

// docs/performance.md: 99.4 at most, policy and all.
constexpr std::uint64_t kTableBytesOfBlock = 100;
constexpr std::uint64_t kHistoryBytesOfBlock = 16;

std::uint64_t BlocksOf(const EngineOptions& options) {
  return options.host.bytes / options.block_bytes + NvmeBlocksMax(options);
}

}  // namespace

// A pool is for the process that made it: half of what that may use, unless told otherwise. More
// than all of it would let the kernel end the process, at the put that touches the page too many.
Result<std::uint64_t> HostBytes(const HostTierOptions& host) {
  // Control groups do not count huge pages that were set aside as their memory.
  const Result<MemoryLimit> limit =
      host.huge_pages == HugePages::kReserved ? ReadMachineMemory() : ReadMemoryLimit();
  if (host.bytes == 0) {
    return limit.ok() ? Result<std::uint64_t>(limit->bytes / 2) : limit.error();
  }
  if (!limit.ok() || host.bytes <= limit->bytes) {
    return host.bytes;
  }
  return Status::Error(StatusCode::kInvalidArgument,
                       "host.bytes is " + std::to_string(host.bytes) + " (" +
                           FormatBytes(host.bytes) + "), but the process may use " +
                           std::to_string(limit->bytes) + " (" + FormatBytes(limit->bytes) +
                           ", by " + limit->path +
                           "); lower host.bytes, or raise that limit; 0 "
                           "takes half of it");
}

std::uint64_t TableBytes(const EngineOptions& options) {
  return BlocksOf(options) * kTableBytesOfBlock + options.history.blocks_max * kHistoryBytesOfBlock;
}

Status CheckTables(const EngineOptions& options, const Result<MemoryLimit>& limit) {
  // Control groups do not count huge pages that were set aside.
  const bool is_counted = options.host.huge_pages != HugePages::kReserved;
  const std::uint64_t pool_bytes = is_counted ? options.host.bytes : 0;
  const std::uint64_t table_bytes = TableBytes(options);
  if (!limit.ok() || pool_bytes + table_bytes <= limit->bytes) {
    return Status::Ok();
  }
  return Status::Error(
      StatusCode::kInvalidArgument,
      "the tables for " + std::to_string(BlocksOf(options)) + " blocks of " +
          FormatBytes(options.block_bytes) + " take up to " + FormatBytes(table_bytes) +
          (is_counted ? ", beside host.bytes of " + FormatBytes(pool_bytes) : "") +
          ", but the process may use " + FormatBytes(limit->bytes) + " (by " + limit->path +
          "); raise block_bytes to the size of the usual block, or lower nvme.capacity_bytes, "
          "history.blocks_max or host.bytes");
}

}  // namespace kvferry::engine
