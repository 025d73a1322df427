// The cases of RunHostBench, each measured for a given time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/status.h"

#include "bench/bench_report.h"
#include "bench/caller_memory.h"
#include "bench/host_engine.h"

namespace kvferry::bench {

// What the cases of one engine share. Everything must outlive the cases.
struct HostCase {
  HostEngine& engine;
  CallerMemory& caller;
  std::uint64_t stored = 0;  // Blocks put so far; their keys are of the numbers below it.
  std::uint64_t slots = 0;   // Blocks that the pool has room for.
  double seconds = 0;        // To measure one case for.
};

// Puts as many blocks as the pool has room for.
Status FillPool(HostCase& shared);

// GB/s of requests whose blocks are there, and of requests whose blocks each push one out; as a
// share of memcpy.
Result<BenchResult> MeasureGet(HostCase& shared);
Result<BenchResult> MeasurePut(HostCase& shared);

// Microseconds of processor time for a match of 8,192 keys, which come up again only after all
// others did; swept: after a walk over the caller's memory, which drives the tables out of caches
// that are larger than they.
Result<BenchResult> MeasureMatch(HostCase& shared, bool is_swept);
// Processor time a block of puts beyond that of copying it, in nanoseconds. The copies go to
// `like_pool`, which is as large as the engine's pool: what is colder costs more.
Result<BenchResult> MeasurePutMetadata(HostCase& shared, CallerMemory& like_pool);
BenchResult MeasureIndexBytes(const HostCase& shared);

}  // namespace kvferry::bench
