// The grid on a TBB arena; oneTBB's home in the replay.
#include "replay/cell_runner.h"

#include <algorithm>
#include <new>
#include <optional>
#include <type_traits>

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "policy/policy_registry.h"
#include "replay/min_bound.h"

namespace kvferry::replay {
namespace {

CellOptions OptionsOf(const CellSpec& cell, const CellRunOptions& options) {
  return CellOptions{.capacity_blocks = cell.capacity_blocks,
                     .hit_rule = options.hit_rule,
                     .warmup_requests = options.warmup_requests,
                     .outputs = options.outputs,
                     .progress_refs = options.progress_refs};
}

// A tier without room: every reference is a miss that is not stored.
CellResult RunEmptyCell(const Trace& trace, const CellRunOptions& options) {
  CellResult result;
  std::size_t index = 0;
  for (const TraceRequest& request : trace.requests()) {
    if (index++ >= options.warmup_requests) {
      result.lookups += request.block_count;
      result.lookup_tokens += request.input_tokens;
    }
  }
  result.rejected = result.lookups;
  if (options.progress_refs != nullptr) {
    options.progress_refs->fetch_add(trace.block_refs(), std::memory_order_relaxed);
  }
  return result;
}

// MIN numbers the references themselves unless the trace is chained and the rule is by prefix.
Result<CellResult> RunBoundCell(const Trace& trace, const CellOptions& options) {
  const bool numbers_references = !trace.is_chained() || options.hit_rule == HitRule::kBlock;
  if (numbers_references && trace.block_refs() > kMinReferencesMax) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "min can number 4,294,967,294 references here and the trace has " +
                             std::to_string(trace.block_refs()) +
                             ": read less with --limit, or leave min out of --policy");
  }
  return RunMinCell(trace, options);
}

Result<CellResult> RunPolicyCell(const Trace& trace,
                                 const CellSpec& cell,
                                 const CellRunOptions& options) {
  const CellOptions cell_options = OptionsOf(cell, options);
  const PolicyOptions policy_options{.entries_max = std::max(trace.distinct_blocks(), 1U),
                                     .residents_max = cell.capacity_blocks,
                                     .seed = options.seed};
  CellResult result;
  KVFERRY_RETURN_IF_ERROR(policy::VisitPolicy(cell.policy, policy_options, [&](auto& policy) {
    using Policy = std::remove_reference_t<decltype(policy)>;
    result = CacheCell<Policy>(trace, cell_options, policy).Run();
  }));
  return result;
}

Result<CellResult> RunCell(const Trace& trace,
                           const CellSpec& cell,
                           const CellRunOptions& options) {
  // The only throwing calls below are allocations, all of them before a cell's loop starts.
  try {
    Result<CellResult> result =
        cell.capacity_blocks == 0       ? Result<CellResult>(RunEmptyCell(trace, options))
        : cell.policy == kMinPolicyName ? RunBoundCell(trace, OptionsOf(cell, options))
                                        : RunPolicyCell(trace, cell, options);
    if (result.has_value()) {
      result->policy = cell.policy;
      result->capacity_blocks = cell.capacity_blocks;
    }
    return result;
  } catch (const std::bad_alloc&) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "no memory for the cell of " + cell.policy + " at " +
                             std::to_string(cell.capacity_blocks) +
                             " blocks: run fewer cells at a time with --jobs");
  }
}

}  // namespace

Status CheckPolicyName(std::string_view name) {
  if (name == kMinPolicyName) {
    return Status::Ok();
  }
  const Status status =
      CreateEvictionPolicy(name, PolicyOptions{.entries_max = 1, .residents_max = 1}).status();
  if (status.ok()) {
    return status;
  }
  return Status::Error(status.code(),
                       std::string(status.message()) + "; and min, the offline bound");
}

std::vector<std::string_view> CellPolicyNames() {
  std::vector<std::string_view> names = EvictionPolicyNames();
  names.push_back(kMinPolicyName);
  return names;
}

std::uint64_t CellMemoryBytes(const Trace& trace, HitRule hit_rule) {
  constexpr std::uint64_t kBytesPerEntry = 64;  // Ledger 5; the heaviest policy below 60.
  constexpr std::uint64_t kBytesFixed = std::uint64_t{1} << 20;
  const std::uint64_t policy_bytes = kBytesFixed + trace.distinct_blocks() * kBytesPerEntry;
  return std::max(policy_bytes, kBytesFixed + MinCellMemoryBytes(trace, hit_rule));
}

Result<std::vector<CellResult>> RunCells(const Trace& trace,
                                         std::span<const CellSpec> cells,
                                         const CellRunOptions& options) {
  for (const CellSpec& cell : cells) {
    KVFERRY_RETURN_IF_ERROR(CheckPolicyName(cell.policy));
  }
  std::vector<std::optional<Result<CellResult>>> outcomes(cells.size());
  tbb::task_arena arena(options.jobs);
  arena.execute([&] {
    // One cell a task: cells differ widely in length.
    tbb::parallel_for(
        tbb::blocked_range<std::size_t>(0, cells.size(), 1),
        [&](const tbb::blocked_range<std::size_t>& range) {
          for (std::size_t i = range.begin(); i < range.end(); ++i) {
            outcomes[i] = RunCell(trace, cells[i], options);
          }
        },
        tbb::simple_partitioner());
  });
  std::vector<CellResult> results;
  results.reserve(cells.size());
  for (std::optional<Result<CellResult>>& outcome : outcomes) {
    if (!outcome->has_value()) {
      return outcome->error();
    }
    results.push_back(std::move(outcome->value()));
  }
  return results;
}

}  // namespace kvferry::replay
