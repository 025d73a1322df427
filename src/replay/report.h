// ReplayReport: everything that a replay in cache mode has to say, and its forms on paper.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "replay/cache_cell.h"
#include "replay/trace.h"
#include "replay/trace_stats.h"

namespace kvferry::replay {

// An option of the command as it took effect.
struct ReportOption {
  std::string name;
  std::string value;
};

struct ReplayReport {
  std::string version;
  std::uint64_t seed = 1;
  HitRule hit_rule = HitRule::kPrefix;
  std::size_t warmup_requests = 0;
  bool stores_outputs = false;
  std::vector<ReportOption> options;
  TraceOrigin origin;
  TraceStats stats;
  std::vector<CellResult> results;
  std::string model;                     // Name of the model whose bytes count; may be empty.
  std::vector<std::string> model_notes;  // What bytes_per_token leaves out or counts too often.
  double bytes_per_token = 0;            // KV cache of one token; 0: unknown.
  double prefill_tokens_per_second = 0;  // 0: unknown.
  std::string
      checks;  // What CheckResults found to hold (DescribeChecks); empty if it was not asked.
};

// What follows from a cell and its report.
struct CellFigures {
  double block_ratio = 0;
  double token_ratio = 0;
  double capacity_share = 0;     // Of the distinct blocks.
  double share_of_infinite = 0;  // Hit blocks by those of an infinite cache; 1 where that has none.
  std::optional<std::uint64_t> capacity_bytes;
  // Hit blocks of min at the same capacity less this cell's; nothing without such a cell.
  std::optional<std::int64_t> below_min_blocks;
  // (hits - leaf-lru's) / (min's - leaf-lru's) at the same capacity, in blocks; nothing unless both
  // were run there and differ.
  std::optional<double> gap_closed;
  // (min's - leaf-lru's) / lookups at the same capacity; nothing unless both were run there.
  std::optional<double> gap_ratio;
  std::optional<double> prefill_seconds_saved;
  std::optional<double> hit_bytes;  // KV bytes read instead of computed.
};

// In a gap from leaf-lru to min below this share of the lookups a few blocks decide: what a policy
// closes of it is noise that people should not be shown.
inline constexpr double kGapRatioMin = 0.0005;

CellFigures DeriveFigures(const ReplayReport& report, const CellResult& cell);

// What a reader must know beside the numbers: the trace's notes and what the options imply.
std::vector<std::string> ReportNotes(const ReplayReport& report);

// What a number of the report means: formula, denominator, treatment of partial blocks.
struct Definition {
  std::string_view name;  // As in the JSON, with dots.
  std::string_view sentence;
};
std::span<const Definition> Definitions();

// "prefix" or "block", as --hit-rule has it.
std::string_view ToString(HitRule rule);
// What counts as a hit under the rule, in one sentence.
std::string_view HitDefinition(HitRule rule);

// One JSON object, indented, with a line end. File names that are not UTF-8 come out with
// replacement characters. Hit numbers are null for a trace without block ids.
std::string ToJson(const ReplayReport& report);

// RFC 4180: a header and one row a cell; lines end with CR LF. Unknown values are empty.
std::string ToCsv(const ReplayReport& report);

// For people: at most 100 columns where names allow, ASCII but for names.
std::string ToText(const ReplayReport& report);

}  // namespace kvferry::replay
