// RunNvmeBench: what the NVMe tier's arrows cost through the engine's public interface, and their
// bound.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "base/bytes.h"
#include "bench/nvme_report.h"

namespace kvferry::bench {

// In the order in which they are measured; docs/performance.md says how. Reads count as hits, which
// the tier writes again before their place is reused, so they come last.
inline constexpr std::array<std::string_view, 4> kNvmeBenchCases{"offload", "onboard", "mixed",
                                                                 "mixed_unlimited"};

struct NvmeBenchOptions {
  std::string dir;                 // Of the files; needed.
  std::vector<std::string> cases;  // Of kNvmeBenchCases; empty: all.
  std::vector<std::uint64_t> block_bytes{256 * kKiB, kMiB, 4 * kMiB};
  double seconds = 240;  // Of measuring in all, shared alike; filling the tier comes on top.
  std::uint64_t host_bytes = 512 * kMiB;
  std::uint64_t store_bytes = 4 * kGiB;  // Of the tier's files, all included.
  std::uint32_t copy_threads = 1;

  // kInvalidArgument naming the option, what is wrong with it and what may be.
  Status Validate() const;
  bool Has(std::string_view name) const;
  // What the files take together at one time.
  std::uint64_t DiskBytes() const;
};

// Tells `on_step` what it is about to do, the room on the drive first. Makes a folder in `dir` for
// its files, which goes when this returns or the process ends; nothing else is touched. Takes twice
// host_bytes of memory. kInvalidArgument for a `dir` that is none or has no direct I/O;
// kResourceExhausted where there is no room in it; what the engine says of its tier. To be called
// while the process has one thread.
Result<NvmeBenchReport> RunNvmeBench(const NvmeBenchOptions& options,
                                     FunctionRef<void(std::string_view)> on_step);

}  // namespace kvferry::bench
