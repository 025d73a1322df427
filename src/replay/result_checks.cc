// The checks, one function each; a violation names the cells.
#include "replay/result_checks.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"

namespace kvferry::replay {
namespace {

constexpr std::string_view kLeafLru = "leaf-lru";
constexpr std::string_view kLruHeadFirst = "lru-head-first";
constexpr std::string_view kMin = "min";

std::string Name(const CellResult& cell) {
  return cell.policy + " at " + std::to_string(cell.capacity_blocks) + " blocks";
}

Status Violation(const std::string& message) {
  return Status::Error(StatusCode::kInternal,
                       message +
                           ": the results cannot be right; this is a fault of kvferry, and "
                           "nothing is printed");
}

// `small` may not be above `large`.
Status CheckAtMost(const CellResult& cell,
                   std::string_view small_name,
                   std::uint64_t small,
                   std::string_view large_name,
                   std::uint64_t large) {
  if (small <= large) {
    return Status::Ok();
  }
  return Violation(Name(cell) + ": " + std::string(small_name) + " (" + std::to_string(small) +
                   ") is above " + std::string(large_name) + " (" + std::to_string(large) + ")");
}

Status CheckEqual(const CellResult& cell,
                  std::string_view a_name,
                  std::uint64_t a,
                  std::string_view b_name,
                  std::uint64_t b) {
  if (a == b) {
    return Status::Ok();
  }
  return Violation(Name(cell) + ": " + std::string(a_name) + " (" + std::to_string(a) +
                   ") is not " + std::string(b_name) + " (" + std::to_string(b) + ")");
}

bool CountsWholeRun(const CheckOptions& options) {
  return options.warmup_requests == 0 && !options.stores_outputs;
}

Status CheckCell(const CellResult& cell,
                 const InfiniteCache& infinite,
                 const CheckOptions& options) {
  KVFERRY_RETURN_IF_ERROR(
      CheckEqual(cell, "lookups", cell.lookups, "the trace's references", infinite.lookups));
  KVFERRY_RETURN_IF_ERROR(CheckEqual(cell, "tokens looked up", cell.lookup_tokens,
                                     "the trace's input tokens", infinite.lookup_tokens));
  KVFERRY_RETURN_IF_ERROR(
      CheckAtMost(cell, "hit blocks", cell.hit_blocks, "lookups", cell.lookups));
  KVFERRY_RETURN_IF_ERROR(CheckAtMost(cell, "hit tokens of full blocks",
                                      cell.hit_tokens_full_blocks, "hit tokens", cell.hit_tokens));
  KVFERRY_RETURN_IF_ERROR(CheckAtMost(cell, "requests with a hit", cell.requests_with_hit,
                                      "hit blocks", cell.hit_blocks));
  KVFERRY_RETURN_IF_ERROR(CheckAtMost(cell, "residents at the end", cell.resident_end,
                                      "the capacity", cell.capacity_blocks));
  const std::uint64_t misses = cell.lookups - cell.hit_blocks;
  KVFERRY_RETURN_IF_ERROR(CheckAtMost(cell, "rejected misses and misses that stayed",
                                      cell.rejected + cell.resident_misses, "misses", misses));
  if (CountsWholeRun(options)) {
    KVFERRY_RETURN_IF_ERROR(
        CheckEqual(cell, "misses", misses, "rejected + evictions + resident at the end + stayed",
                   cell.rejected + cell.evictions + cell.resident_end + cell.resident_misses));
  }
  KVFERRY_RETURN_IF_ERROR(CheckAtMost(cell, "hit blocks", cell.hit_blocks,
                                      "those of an infinite cache", infinite.hit_blocks));
  KVFERRY_RETURN_IF_ERROR(CheckAtMost(cell, "hit tokens", cell.hit_tokens,
                                      "those of an infinite cache", infinite.hit_tokens));
  KVFERRY_RETURN_IF_ERROR(CheckAtMost(cell, "requests with a hit", cell.requests_with_hit,
                                      "those of an infinite cache", infinite.requests_with_hit));
  if (CountsWholeRun(options) && cell.evictions == 0 && cell.rejected == 0) {
    KVFERRY_RETURN_IF_ERROR(CheckEqual(cell, "hit blocks without any eviction or rejection",
                                       cell.hit_blocks, "those of an infinite cache",
                                       infinite.hit_blocks));
  }
  return Status::Ok();
}

// What the trace and the options allow to be said of two cells.
struct PairRules {
  bool min_is_bound = false;
  bool min_bypasses = true;  // Otherwise it bounds only policies that do not either.
  bool lru_orders_agree = false;
};

PairRules RulesOf(const Trace& trace, const CheckOptions& options) {
  const bool is_block_rule = options.hit_rule == HitRule::kBlock;
  return {.min_is_bound = CountsWholeRun(options) && (is_block_rule || trace.is_chained()),
          .min_bypasses = !is_block_rule,
          .lru_orders_agree =
              !options.stores_outputs && (is_block_rule || trace.path_blocks_max() <= 1)};
}

Status CheckSameCapacity(const CellResult& a, const CellResult& b, const PairRules& rules) {
  const auto must_equal = [&](std::string_view reason) {
    return a.hit_blocks == b.hit_blocks
               ? Status::Ok()
               : Violation(Name(a) + " has " + std::to_string(a.hit_blocks) + " hit blocks, " +
                           b.policy + " has " + std::to_string(b.hit_blocks) + ", though " +
                           std::string(reason));
  };
  if (a.policy == b.policy) {
    return must_equal("they are the same cell");
  }
  if (rules.lru_orders_agree && a.policy == kLeafLru && b.policy == kLruHeadFirst) {
    return must_equal("each path is touched in one way only");
  }
  const bool is_bounded =
      rules.min_is_bound && b.policy == kMin && (rules.min_bypasses || a.rejected == 0);
  if (is_bounded && a.hit_blocks > b.hit_blocks) {
    return Violation(Name(a) + " has " + std::to_string(a.hit_blocks) +
                     " hit blocks, more than min with " + std::to_string(b.hit_blocks));
  }
  return Status::Ok();
}

bool GrowsWithCapacity(std::string_view policy, const PairRules& rules) {
  return policy == kLeafLru || policy == kLruHeadFirst || (policy == kMin && rules.min_is_bound);
}

}  // namespace

Status CheckResults(const Trace& trace,
                    const TraceStats& stats,
                    std::span<const CellResult> results,
                    const CheckOptions& options) {
  if (results.empty()) {
    return Status::Ok();
  }
  KVFERRY_CHECK(stats.infinite.has_value());
  for (const CellResult& cell : results) {
    KVFERRY_RETURN_IF_ERROR(CheckCell(cell, *stats.infinite, options));
  }
  const PairRules rules = RulesOf(trace, options);
  for (const CellResult& a : results) {
    for (const CellResult& b : results) {
      if (a.capacity_blocks == b.capacity_blocks) {
        KVFERRY_RETURN_IF_ERROR(CheckSameCapacity(a, b, rules));
      } else if (a.policy == b.policy && a.capacity_blocks < b.capacity_blocks &&
                 GrowsWithCapacity(a.policy, rules) && a.hit_blocks > b.hit_blocks) {
        return Violation(Name(a) + " has " + std::to_string(a.hit_blocks) +
                         " hit blocks, more than the " + std::to_string(b.hit_blocks) + " at " +
                         std::to_string(b.capacity_blocks) + " blocks");
      }
    }
  }
  return Status::Ok();
}

std::string DescribeChecks(const Trace& trace,
                           std::span<const CellResult> results,
                           const CheckOptions& options) {
  if (results.empty()) {
    return {};
  }
  const PairRules rules = RulesOf(trace, options);
  // Whether any two cells were there to compare.
  const auto has_pair = [&](auto is_compared) {
    return std::any_of(results.begin(), results.end(), [&](const CellResult& a) {
      return std::any_of(results.begin(), results.end(),
                         [&](const CellResult& b) { return is_compared(a, b); });
    });
  };
  std::string text = "hits + misses = lookups";
  if (CountsWholeRun(options)) {
    text += "; misses = rejected + evictions + resident at the end";
    text += options.hit_rule == HitRule::kPrefix ? " + resident behind an absent block" : "";
  }
  text += "; no policy above the infinite cache";
  if (rules.min_is_bound && has_pair([](const CellResult& a, const CellResult& b) {
        return a.policy != kMin && b.policy == kMin && a.capacity_blocks == b.capacity_blocks;
      })) {
    text += rules.min_bypasses ? " or min" : " or, where it rejects nothing, min";
  }
  const auto grows = [&](std::string_view policy) {
    return has_pair([&](const CellResult& a, const CellResult& b) {
      return a.policy == policy && b.policy == policy && a.capacity_blocks < b.capacity_blocks;
    });
  };
  if (grows(kLeafLru) || grows(kLruHeadFirst)) {
    text += "; LRU never loses hits to a larger capacity";
  }
  return text + ".";
}

}  // namespace kvferry::replay
