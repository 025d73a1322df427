// The measurement as a whole: its options, its two engines, the order of its cases.
#include "bench/host_bench.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/host_cases.h"

namespace kvferry::bench {
namespace {

constexpr std::uint32_t kIndexBlockBytes = 4096;  // The least that an engine takes.
constexpr std::uint32_t kIndexBatch = 256;
constexpr std::uint64_t kBlockBytesMax = 64 * kMiB;
// Blocks of the largest size that the pool has room for at least.
constexpr std::uint64_t kBlocksMin = 16;
constexpr std::uint64_t kBatchBlocks = 64;
// A slice of an eighth of the pool has several requests, however large its blocks.
constexpr std::uint64_t kBatchesOfPool = 32;

Status Refuse(std::string text) {
  return Status::Error(StatusCode::kInvalidArgument, std::move(text));
}

std::size_t Cells(const HostBenchOptions& options) {
  const auto one = [&](std::string_view name) -> std::size_t {
    return options.Has(name) ? 1 : 0;
  };
  return (one("get") + one("put")) * options.block_bytes.size() + one("match_8192") +
         one("match_8192_swept") + one("put_metadata");
}

Status RunCopies(const HostBenchOptions& options,
                 FunctionRef<void(std::string_view)> on_step,
                 std::vector<BenchResult>& results) {
  KVFERRY_ASSIGN_OR_RETURN(CallerMemory caller, CallerMemory::Make(options.host_bytes));
  for (const std::uint64_t block_bytes : options.block_bytes) {
    const std::string size = FormatBytes(block_bytes);
    on_step("filling " + FormatBytes(options.host_bytes) + " with blocks of " + size);
    const std::uint64_t slots = options.host_bytes / block_bytes;
    KVFERRY_ASSIGN_OR_RETURN(
        HostEngine engine,
        HostEngine::Open({.host_bytes = options.host_bytes,
                          .block_bytes = Narrow<std::uint32_t>(block_bytes),
                          .copy_threads = options.copy_threads,
                          .batch_blocks = Narrow<std::uint32_t>(std::clamp<std::uint64_t>(
                              slots / kBatchesOfPool, 1, kBatchBlocks))}));
    HostCase shared{.engine = engine,
                    .caller = caller,
                    .slots = slots,
                    .seconds = options.seconds / static_cast<double>(Cells(options))};
    KVFERRY_RETURN_IF_ERROR(FillPool(shared));
    if (options.Has("get")) {
      on_step("get, " + size);
      KVFERRY_ASSIGN_OR_RETURN(BenchResult result, MeasureGet(shared));
      results.push_back(std::move(result));
    }
    if (options.Has("put")) {
      on_step("put, " + size);
      KVFERRY_ASSIGN_OR_RETURN(BenchResult result, MeasurePut(shared));
      results.push_back(std::move(result));
    }
  }
  return Status::Ok();
}

Status RunIndexCases(const HostBenchOptions& options,
                     FunctionRef<void(std::string_view)> on_step,
                     std::vector<BenchResult>& results) {
  on_step("filling an index of " + std::to_string(options.blocks) + " blocks");
  const std::uint64_t pool_bytes = std::uint64_t{options.blocks} * kIndexBlockBytes;
  KVFERRY_ASSIGN_OR_RETURN(CallerMemory caller, CallerMemory::Make(std::min(pool_bytes, kGiB)));
  KVFERRY_ASSIGN_OR_RETURN(HostEngine engine,
                           HostEngine::Open({.host_bytes = pool_bytes,
                                             .block_bytes = kIndexBlockBytes,
                                             .copy_threads = options.copy_threads,
                                             .batch_blocks = kIndexBatch}));
  HostCase shared{
      .engine = engine,
      .caller = caller,
      .slots = options.blocks,
      .seconds = options.seconds / static_cast<double>(std::max<std::size_t>(1, Cells(options)))};
  if (options.Has("match_8192") || options.Has("match_8192_swept") || options.Has("put_metadata")) {
    KVFERRY_RETURN_IF_ERROR(FillPool(shared));
  }
  for (const bool is_swept : {false, true}) {
    const std::string_view name = is_swept ? "match_8192_swept" : "match_8192";
    if (options.Has(name)) {
      on_step(name);
      KVFERRY_ASSIGN_OR_RETURN(BenchResult result, MeasureMatch(shared, is_swept));
      results.push_back(std::move(result));
    }
  }
  if (options.Has("put_metadata")) {
    on_step("put_metadata");
    KVFERRY_ASSIGN_OR_RETURN(CallerMemory like_pool, CallerMemory::Make(pool_bytes));
    KVFERRY_ASSIGN_OR_RETURN(BenchResult result, MeasurePutMetadata(shared, like_pool));
    results.push_back(std::move(result));
  }
  if (options.Has("index_bytes_per_block")) {
    results.push_back(MeasureIndexBytes(shared));
  }
  return Status::Ok();
}

}  // namespace

bool HostBenchOptions::Has(std::string_view name) const {
  return cases.empty() || std::find(cases.begin(), cases.end(), name) != cases.end();
}

Status HostBenchOptions::Validate() const {
  for (const std::string& name : cases) {
    if (std::find(kHostBenchCases.begin(), kHostBenchCases.end(), name) == kHostBenchCases.end()) {
      std::string text = "--case '" + name + "' is none of the cases, which are";
      for (const std::string_view known : kHostBenchCases) {
        text.append(known == kHostBenchCases.front() ? " " : ", ").append(known);
      }
      return Refuse(text);
    }
  }
  if (block_bytes.empty()) {
    return Refuse("--block names no size; give one or more, as in 64KiB,1MiB");
  }
  for (const std::uint64_t size : block_bytes) {
    if (size < kIndexBlockBytes || size > kBlockBytesMax) {
      return Refuse("--block " + FormatBytes(size) + ": a block has " +
                    FormatBytes(kIndexBlockBytes) + " to " + FormatBytes(kBlockBytesMax));
    }
    if ((Has("get") || Has("put")) && size * kBlocksMin > host_bytes) {
      return Refuse("--host-bytes " + FormatBytes(host_bytes) + " is less than " +
                    std::to_string(kBlocksMin) + " blocks of " + FormatBytes(size) +
                    "; raise it, or leave out that --block");
    }
  }
  if (!std::isfinite(seconds) || seconds <= 0) {
    return Refuse("--seconds must be above 0");
  }
  if (blocks < kIndexBlocksMin || blocks > kIndexBlocksMax) {
    return Refuse("--blocks " + std::to_string(blocks) + ": an index has " +
                  std::to_string(kIndexBlocksMin) + " to " + std::to_string(kIndexBlocksMax) +
                  " blocks here");
  }
  return Status::Ok();
}

Result<std::vector<BenchResult>> RunHostBench(const HostBenchOptions& options,
                                              FunctionRef<void(std::string_view)> on_step) {
  KVFERRY_RETURN_IF_ERROR(options.Validate());
  std::vector<BenchResult> results;
  if (options.Has("get") || options.Has("put")) {
    KVFERRY_RETURN_IF_ERROR(RunCopies(options, on_step, results));
  }
  const bool looks_at_index = std::any_of(kHostBenchCases.begin() + 2, kHostBenchCases.end(),
                                          [&](std::string_view name) { return options.Has(name); });
  if (looks_at_index) {
    KVFERRY_RETURN_IF_ERROR(RunIndexCases(options, on_step, results));
  }
  return results;
}

}  // namespace kvferry::bench
