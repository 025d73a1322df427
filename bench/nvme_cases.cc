// One side of each case is the engine's, the other one its bound.
#include "bench/nvme_cases.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "base/assert.h"

namespace kvferry::bench {
namespace {

// Long beside the beginning and the end of what is in flight, short beside a drift of the machine;
// shorter only where there is no time for some of them.
constexpr Duration kSliceMax = std::chrono::milliseconds(200);
constexpr Duration kSliceMin = std::chrono::milliseconds(10);
constexpr double kSlicesMin = 10;

Duration SliceOf(const NvmeCase& shared) {
  const auto part = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(shared.seconds / kSlicesMin));
  return std::clamp(part, kSliceMin, kSliceMax);
}

NvmeBenchResult ResultOf(const PairedRates& rates, const Histogram& latencies) {
  NvmeBenchResult result;
  result.pairs = rates.pairs;
  result.gbps = rates.gbps;
  result.bound_gbps = rates.bound_gbps;
  result.ratio = rates.ratio;
  result.p50_us = static_cast<double>(latencies.Percentile(50)) * 1e-3;
  result.p99_us = static_cast<double>(latencies.Percentile(99)) * 1e-3;
  result.cpu_us_per_mib = rates.cpu_us_per_mib;
  result.bound_cpu_us_per_mib = rates.bound_cpu_us_per_mib;
  return result;
}

Result<NvmeBenchResult> MeasureArrow(NvmeCase& shared,
                                     Result<Slice> (NvmeEngine::*slice)(Duration),
                                     PlainLoop& bound,
                                     tiers::IoOp::Kind kind) {
  shared.engine.latencies().Clear();
  const Duration time = SliceOf(shared);
  KVFERRY_ASSIGN_OR_RETURN(const PairedRates rates,
                           MeasurePairs(
                               shared.seconds, [&] { return (shared.engine.*slice)(time); },
                               [&] { return bound.Run(kind, {.time = time}); }));
  return ResultOf(rates, shared.engine.latencies());
}

// The plain loop reads the blocks that the engine reads: what a cache below it holds of a drive, it
// holds for both. Blocks lie in the order in which they were put, round and round. Half a circle is
// between the two, so that neither finds in such a cache what the other has just read.
Status ReadTheSame(NvmeCase& shared) {
  const NvmeEngine::Circle circle = shared.engine.circle();
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t block = circle.begin; block < circle.end; ++block) {
    offsets.push_back(shared.places[block % shared.places.size()]);
  }
  std::rotate(offsets.begin(), offsets.begin() + std::ssize(offsets) / 2, offsets.end());
  return shared.reads.SetOffsets(std::move(offsets));
}

// What reads keep beside writes that nobody holds back: why the engine does.
Result<NvmeBenchResult> MeasureUnlimited(NvmeCase& shared) {
  FreeWriter writer(shared.free_writes);
  const Duration time = SliceOf(shared);
  double written = 0;
  double seconds = 0;
  Histogram latencies;
  const auto beside = [&]() -> Result<Slice> {
    shared.reads.latencies().Clear();
    writer.Resume();
    Result<Slice> slice = shared.reads.Run(tiers::IoOp::Kind::kRead, {.time = time});
    const Result<std::uint64_t> bytes = writer.Pause();
    KVFERRY_RETURN_IF_ERROR(bytes.status());
    KVFERRY_RETURN_IF_ERROR(slice.status());
    written += static_cast<double>(*bytes);
    seconds += slice->seconds;
    latencies.Merge(shared.reads.latencies());
    return slice;
  };
  KVFERRY_ASSIGN_OR_RETURN(const PairedRates rates, MeasurePairs(shared.seconds, beside, [&] {
                             return shared.reads.Run(tiers::IoOp::Kind::kRead, {.time = time});
                           }));
  NvmeBenchResult result = ResultOf(rates, latencies);
  result.write_gbps = written * 1e-9 / seconds;
  return result;
}

}  // namespace

Result<NvmeBenchResult> MeasureNvmeCase(NvmeCase& shared, std::string_view name) {
  Result<NvmeBenchResult> result = Status::Error(StatusCode::kInvalidArgument, std::string(name));
  using enum tiers::IoOp::Kind;
  KVFERRY_RETURN_IF_ERROR(ReadTheSame(shared));
  if (name == "offload") {
    result = MeasureArrow(shared, &NvmeEngine::Offload, *shared.writes, kWrite);
  } else if (name == "onboard") {
    result = MeasureArrow(shared, &NvmeEngine::Onboard, shared.reads, kRead);
  } else if (name == "mixed") {
    shared.engine.TakeBeside();
    result = MeasureArrow(shared, &NvmeEngine::Mixed, shared.reads, kRead);
    if (result.ok()) {
      const NvmeEngine::Beside beside = shared.engine.TakeBeside();
      result->write_gbps = beside.bytes * 1e-9 / beside.seconds;
      result->blocks_skipped = beside.blocks_skipped;
    }
  } else if (name == "mixed_unlimited") {
    result = MeasureUnlimited(shared);
  }
  KVFERRY_RETURN_IF_ERROR(result.status().WithContext(name));
  result->name = name;
  result->block_bytes = shared.block_bytes;
  result->hash_us_per_mib = name == "mixed_unlimited" ? 0 : shared.hash_us_per_mib;
  return result;
}

}  // namespace kvferry::bench
