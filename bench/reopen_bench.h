// RunReopenBench: how soon an engine serves again over the store that a killed process has left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "base/bytes.h"
#include "bench/bench_report.h"

namespace kvferry::bench {

struct ReopenBenchOptions {
  std::string dir;  // Of the files; needed.
  std::uint64_t blocks = 1'000'000;
  std::uint32_t block_bytes = 4 * kKiB;
  std::uint64_t host_bytes = 256 * kMiB;

  // kInvalidArgument naming the option, what is wrong with it and what may be.
  Status Validate() const;
  // What the tier may take, with room for some more blocks than are asked for.
  std::uint64_t StoreBytes() const;
};

// A process fills a store through the engine and is killed with SIGKILL once its last block is
// durable. Then this one opens it, and asks for blocks, one at a time, from the moment on when Open
// has returned:
//   open          until Open has returned, milliseconds
//   first_answer  until the first request has ended, a hit or not, since Open was called
//   first_hit     until the first hit, likewise
//   scan          until all blocks were found, likewise
//   found         blocks found, as a share of those that were there
//   read          bytes that the process has read from drives by then, as a share of the payloads'
//   index         bytes of index and records for each block that was found
// kInternal for a block with another one's bytes. Other errors as of RunNvmeBench, which also says
// what becomes of the files. To be called while the process has one thread.
Result<std::vector<BenchResult>> RunReopenBench(const ReopenBenchOptions& options,
                                                FunctionRef<void(std::string_view)> on_step);

}  // namespace kvferry::bench
