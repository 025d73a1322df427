// RunHostBench: what the host tier costs through the engine's public interface, and its bounds.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "base/bytes.h"
#include "bench/bench_report.h"

namespace kvferry::bench {

// In the order in which they are measured; docs/performance.md says how.
inline constexpr std::array<std::string_view, 6> kHostBenchCases{
    "get", "put", "match_8192", "match_8192_swept", "put_metadata", "index_bytes_per_block"};

struct HostBenchOptions {
  std::vector<std::string> cases;  // Of kHostBenchCases; empty: all.
  // Sizes of the blocks that get and put move.
  std::vector<std::uint64_t> block_bytes{64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB};
  double seconds = 8;  // Of measuring in all, shared alike; filling the pools comes on top.
  std::uint64_t host_bytes = 2 * kGiB;  // Of the engine's pool for get and put.
  std::uint32_t blocks = 1'048'576;     // In the index that the other cases look at.
  std::uint32_t copy_threads = 1;       // Of the engine; memcpy has one.

  // kInvalidArgument naming the option, what is wrong with it and what may be.
  Status Validate() const;
  bool Has(std::string_view name) const;
};

inline constexpr std::uint32_t kIndexBlocksMin = 16'384;
inline constexpr std::uint32_t kIndexBlocksMax = std::uint32_t{1} << 26;

// Tells `on_step` what it is about to do. Takes twice host_bytes of memory for get and put; for the
// index 4.4 KiB a block, and 1 GiB or as much as the blocks, whichever is less.
Result<std::vector<BenchResult>> RunHostBench(const HostBenchOptions& options,
                                              FunctionRef<void(std::string_view)> on_step);

}  // namespace kvferry::bench
