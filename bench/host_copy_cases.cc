// Get and put of large blocks, against memcpy of as many bytes.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "bench/host_cases.h"

namespace kvferry::bench {
namespace {

// A slice is an eighth of the pool, and long beside the beginning and the end of its requests.
constexpr std::uint64_t kSlicesOfPool = 8;
constexpr std::size_t kPairsMin = 3;

double SecondsSince(Instant start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double MemcpySeconds(HostCase& shared, std::size_t blocks) {
  const Instant start = Clock::now();
  shared.caller.CopyAcross(
      blocks, shared.engine.options().block_bytes,
      [](auto source, auto target) { std::memcpy(target.data(), source.data(), source.size()); });
  return SecondsSince(start);
}

// One slice in turn with one of memcpy, until the time is over. `slice` gives its seconds.
Result<BenchResult> MeasurePairs(HostCase& shared,
                                 std::size_t blocks,
                                 FunctionRef<Result<double>()> slice) {
  std::vector<double> rates;
  std::vector<double> ratios;
  const double gigabytes = static_cast<double>(blocks * shared.engine.options().block_bytes) * 1e-9;
  KVFERRY_RETURN_IF_ERROR(slice().status());  // Warms up.
  const Instant start = Clock::now();
  while (rates.size() < kPairsMin || SecondsSince(start) < shared.seconds) {
    // Who goes first changes, so that a drift of the machine's speed favours neither.
    const bool is_first = rates.size() % 2 == 0;
    const double before = is_first ? 0 : MemcpySeconds(shared, blocks);
    KVFERRY_ASSIGN_OR_RETURN(const double ours, slice());
    const double bound = is_first ? MemcpySeconds(shared, blocks) : before;
    rates.push_back(gigabytes / ours);
    ratios.push_back(bound / ours);
  }
  BenchResult result;
  result.block_bytes = shared.engine.options().block_bytes;
  result.value = Median(std::move(rates));
  result.unit = "GB/s";
  result.bound = "memcpy";
  // So that the ratio that is printed is the median of the pairs' ratios.
  result.bound_value = result.value / Median(std::move(ratios));
  return result;
}

std::size_t SliceBlocks(const HostCase& shared) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(shared.slots / kSlicesOfPool));
}

// Seconds for putting the next `blocks` blocks.
Result<double> PutSlice(HostCase& shared, std::size_t blocks) {
  const std::vector<BlockKey> keys = KeysOf(shared.stored, blocks);
  const std::vector<std::byte*> taken =
      shared.caller.Take(blocks, shared.engine.options().block_bytes);
  for (std::size_t i = 0; i < blocks; ++i) {
    Stamp(taken[i], shared.stored + i);
  }
  const std::vector<const std::byte*> sources(taken.begin(), taken.end());
  const Instant start = Clock::now();
  KVFERRY_RETURN_IF_ERROR(shared.engine.Put(keys, sources));
  const double seconds = SecondsSince(start);
  shared.stored += blocks;
  return seconds;
}

}  // namespace

Status FillPool(HostCase& shared) {
  const std::size_t slice = SliceBlocks(shared);
  while (shared.stored < shared.slots) {
    const auto left = static_cast<std::size_t>(shared.slots - shared.stored);
    KVFERRY_RETURN_IF_ERROR(PutSlice(shared, std::min(left, slice)).status());
  }
  return Status::Ok();
}

Result<BenchResult> MeasureGet(HostCase& shared) {
  const std::size_t blocks = SliceBlocks(shared);
  const std::uint64_t block_bytes = shared.engine.options().block_bytes;
  // The pool may have kept a little less than was put; the latest blocks are there.
  const std::uint64_t oldest = shared.stored - shared.slots / kSlicesOfPool * (kSlicesOfPool - 1);
  std::uint64_t next = oldest;
  std::uint64_t checksum = 0;
  const auto slice = [&]() -> Result<double> {
    if (next + blocks > shared.stored) {
      next = oldest;
    }
    const std::vector<BlockKey> keys = KeysOf(next, blocks);
    const std::vector<std::byte*> targets = shared.caller.Take(blocks, block_bytes);
    const Instant start = Clock::now();
    KVFERRY_RETURN_IF_ERROR(shared.engine.Get(keys, targets));
    const double seconds = SecondsSince(start);
    for (std::size_t i = 0; i < blocks; ++i) {
      if (StampOf(targets[i]) != next + i) {
        return Status::Error(StatusCode::kDataLoss, "a get gave the bytes of another block");
      }
      checksum += next + i;
    }
    next += blocks;
    return seconds;
  };
  KVFERRY_ASSIGN_OR_RETURN(BenchResult result, MeasurePairs(shared, blocks, slice));
  result.name = "get";
  result.checksum = checksum & 0xffffffff;
  return result;
}

Result<BenchResult> MeasurePut(HostCase& shared) {
  const std::size_t blocks = SliceBlocks(shared);
  const std::uint64_t before = shared.stored;
  KVFERRY_ASSIGN_OR_RETURN(BenchResult result,
                           MeasurePairs(shared, blocks, [&] { return PutSlice(shared, blocks); }));
  result.name = "put";
  result.checksum = shared.stored - before;
  return result;
}

}  // namespace kvferry::bench
