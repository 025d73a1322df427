// The cases of RunNvmeBench, each measured for a given time at one size of blocks.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "bench/free_writer.h"
#include "bench/nvme_engine.h"
#include "bench/nvme_plain_loop.h"
#include "bench/nvme_report.h"

namespace kvferry::bench {

// What the cases share. Everything must outlive them.
struct NvmeCase {
  NvmeEngine& engine;
  PlainLoop& reads;                          // Of the tier's own file.
  PlainLoop* writes;                         // Over the same places of another one; may be null.
  const std::vector<std::uint64_t>& places;  // Of blocks in the order in which they are put.
  PlainLoop::Options free_writes;            // The same for a thread of its own.
  std::uint32_t block_bytes = 0;
  double seconds = 0;  // To measure one case for.
  double hash_us_per_mib = 0;
};

// `name` is of kNvmeBenchCases; those that write need `writes`.
Result<NvmeBenchResult> MeasureNvmeCase(NvmeCase& shared, std::string_view name);

}  // namespace kvferry::bench
