// RunCells: a grid of policies and capacities over one trace, several cells at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "replay/cache_cell.h"
#include "replay/trace.h"

namespace kvferry::replay {

struct CellSpec {
  std::string policy;
  std::uint32_t capacity_blocks = 0;  // 0 is legal: nothing is ever stored.
};

struct CellRunOptions {
  HitRule hit_rule = HitRule::kPrefix;
  std::size_t warmup_requests = 0;
  std::span<const CellOptions::Output> outputs;  // CellOptions::outputs.
  std::uint64_t seed = 1;
  int jobs = 1;  // Cells in parallel; each has its own policy and ledger.
  // Grows by block references done, cells and all. May be null.
  std::atomic<std::uint64_t>* progress_refs = nullptr;
};

// Ok if `name` is "min" or a policy; else kInvalidArgument with the list of names.
Status CheckPolicyName(std::string_view name);

// Every policy name in the order of reports, `min` last, admission prefixes left out.
std::vector<std::string_view> CellPolicyNames();

// What one cell takes at most, beside the trace: the bound that --memory is checked against.
std::uint64_t CellMemoryBytes(const Trace& trace, HitRule hit_rule);

// Results in the order of `cells`. All or nothing: the first failure is returned.
// kInvalidArgument for an unknown policy; kResourceExhausted if a cell's memory cannot be had.
Result<std::vector<CellResult>> RunCells(const Trace& trace,
                                         std::span<const CellSpec> cells,
                                         const CellRunOptions& options);

}  // namespace kvferry::replay
