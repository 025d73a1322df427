// The report for people: plain text in sections, the trace first, then what policies make of it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/bytes.h"
#include "replay/report.h"
#include "replay/text_format.h"

namespace kvferry::replay {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kLabelWidth = 16;

std::string Heading(const std::string& title) {
  return "\n" + title + "\n";
}

// "  label           text", wrapped behind the label.
std::string Fact(std::string label, const std::string& text) {
  label.resize(std::max(label.size(), kLabelWidth), ' ');
  return std::string(kIndent, ' ') + label + WrapText(text, kIndent + kLabelWidth, kWidth) + "\n";
}

std::string Bullet(std::string_view text) {
  return "  - " + WrapText(std::string(text), 4, kWidth) + "\n";
}

std::string Seconds(double seconds) {
  // Above this even milliseconds do not fit in an integer; nobody reads such a figure.
  constexpr double kSecondsMax = 1e15;
  return FormatDuration(
      static_cast<std::uint64_t>(std::llround(std::min(seconds, kSecondsMax) * 1000)));
}

std::string Bytes(double bytes) {
  constexpr double kBytesMax = 9e18;
  return FormatBytes(static_cast<std::uint64_t>(std::llround(std::min(bytes, kBytesMax))));
}

std::string TraceSection(const ReplayReport& report) {
  const TraceStats& stats = report.stats;
  std::string text = Heading("Trace");
  text += Fact("file", report.origin.name);
  text += Fact("sha256", report.origin.sha256);
  text +=
      Fact("format", report.origin.format +
                         (stats.infinite ? ", " + FormatCounted(report.origin.block_tokens,
                                                                "token a block", "tokens a block")
                                         : ", no block ids"));
  text += Fact("requests", FormatCount(stats.requests) + " over " + FormatDuration(stats.span_ms));
  text += Fact("tokens", FormatCount(stats.input_tokens) + " input, " +
                             FormatCount(stats.output_tokens) + " output");
  if (!stats.infinite.has_value()) {
    return text;
  }
  text +=
      Fact("blocks", FormatCounted(stats.block_refs, "reference", "references") + " to " +
                         FormatCounted(stats.distinct_blocks, "distinct block", "distinct blocks"));
  if (report.bytes_per_token > 0) {
    const double block_bytes = report.bytes_per_token * report.origin.block_tokens;
    text += Fact("KV bytes", (report.model.empty() ? "" : report.model + ": ") +
                                 Bytes(report.bytes_per_token) + " a token, " + Bytes(block_bytes) +
                                 " a block, " +
                                 Bytes(block_bytes * static_cast<double>(stats.distinct_blocks)) +
                                 " for all distinct blocks");
  }
  return text;
}

std::string InfiniteSection(const ReplayReport& report) {
  if (!report.stats.infinite.has_value()) {
    return "";
  }
  const InfiniteCache& infinite = *report.stats.infinite;
  std::string text = Heading("Infinite cache (what no policy can exceed)");
  text +=
      Fact("blocks", FormatPercent(infinite.block_ratio()) + ": " +
                         FormatCount(infinite.hit_blocks) + " of " + FormatCount(infinite.lookups));
  text += Fact("tokens", FormatPercent(infinite.token_ratio()) + ": " +
                             FormatCount(infinite.hit_tokens) + " of " +
                             FormatCount(infinite.lookup_tokens) + "; " +
                             FormatPercent(infinite.token_ratio_second_half()) +
                             " in the second half of the requests");
  text += Fact("full blocks", FormatCount(infinite.hit_tokens_full_blocks) +
                                  " tokens without blocks that are not full");
  text += Fact("requests", FormatCount(infinite.requests_with_hit) + " of " +
                               FormatCount(infinite.requests) + " have a hit");
  return text;
}

std::string LengthSection(const TraceStats& stats) {
  TextTable table(kIndent);
  table.AddRow({"", "mean", "p50", "p90", "p99", "max"});
  const auto add = [&](std::string name, const LengthStats& lengths) {
    table.AddRow({std::move(name),
                  FormatCount(static_cast<std::uint64_t>(std::llround(lengths.mean))),
                  FormatCount(lengths.p50), FormatCount(lengths.p90), FormatCount(lengths.p99),
                  FormatCount(lengths.max)});
  };
  add("input", stats.input);
  add("output", stats.output);
  return Heading("Lengths (tokens a request)") + table.ToString();
}

std::string ReuseSection(const TraceStats& stats) {
  if (!stats.blocks.has_value()) {
    return "";
  }
  std::string text = Heading("Reuse (references of a block after its first)");
  if (stats.reuse.has_value()) {
    TextTable table(kIndent);
    table.AddRow({"since the last", "p10", "p25", "p50", "p75", "p90", "p99", "max"});
    const auto add = [&](std::string name, const IntervalPercentiles& at, auto format) {
      table.AddRow({std::move(name), format(at.p10), format(at.p25), format(at.p50), format(at.p75),
                    format(at.p90), format(at.p99), format(at.max)});
    };
    add("time", stats.reuse->ms, FormatDuration);
    add("requests", stats.reuse->requests, FormatCount);
    text += table.ToString();
  } else {
    text += "  No block is referenced twice.\n";
  }
  const BlockPopularity& blocks = *stats.blocks;
  TextTable table(kIndent);
  table.AddRow({"references", "1", "2", "3-9", "10-99", "100+"});
  table.AddRow({"blocks", FormatCount(blocks.referenced_once), FormatCount(blocks.referenced_twice),
                FormatCount(blocks.referenced_3_to_9), FormatCount(blocks.referenced_10_to_99),
                FormatCount(blocks.referenced_100_or_more)});
  return text + table.ToString() + "  The top 1% of blocks take " +
         FormatPercent(blocks.top_1_percent_share) + " of them.\n";
}

std::string SessionSection(const TraceStats& stats) {
  const SessionStats& sessions = stats.sessions;
  if (sessions.kind == SessionKind::kNone || sessions.count == 0) {
    return "";
  }
  std::string text =
      Heading(sessions.kind == SessionKind::kGiven ? "Sessions (ids given by the trace)"
                                                   : "Sessions (inferred from the paths)");
  text += "  " + FormatCounted(sessions.count, "session", "sessions") + ", " +
          FormatCount(sessions.single) + " of them with a single turn\n";
  TextTable table(kIndent);
  table.AddRow({"", "p50", "p90", "p99", "max"});
  const auto add = [&](std::string name, const SessionPercentiles& at, auto format) {
    table.AddRow({std::move(name), format(at.p50), format(at.p90), format(at.p99), format(at.max)});
  };
  add("turns", sessions.turns, FormatCount);
  if (sessions.gap_ms.has_value()) {
    add("gap between turns", *sessions.gap_ms, FormatDuration);
  }
  return text + table.ToString();
}

std::string ArrivalSection(const TraceStats& stats) {
  const ArrivalStats& arrivals = stats.arrivals;
  std::string summary = arrivals.per_second.has_value()
                            ? FormatDecimal(*arrivals.per_second, 4) + " requests a second"
                            : std::string("all requests at one time");
  if (arrivals.gap_variation.has_value()) {
    summary += ", variation of gaps " + FormatDecimal(*arrivals.gap_variation, 3);
  }
  summary += ", " + FormatCounted(arrivals.distinct_timestamps, "distinct timestamp",
                                  "distinct timestamps");
  TextTable table(kIndent);
  table.AddRow({"", "p1", "p50", "p99", "max"});
  table.AddRow({"requests a minute", FormatCount(arrivals.per_minute.p1),
                FormatCount(arrivals.per_minute.p50), FormatCount(arrivals.per_minute.p99),
                FormatCount(arrivals.per_minute.max)});
  return Heading("Arrivals") + "  " + summary + "\n" + table.ToString();
}

// Capacities of the report, ascending.
std::vector<std::uint64_t> Capacities(const ReplayReport& report) {
  std::vector<std::uint64_t> capacities;
  for (const CellResult& cell : report.results) {
    capacities.push_back(cell.capacity_blocks);
  }
  std::sort(capacities.begin(), capacities.end());
  capacities.erase(std::unique(capacities.begin(), capacities.end()), capacities.end());
  return capacities;
}

// The cells of one capacity, in the report's order.
std::vector<const CellResult*> CellsAt(const ReplayReport& report, std::uint64_t capacity) {
  std::vector<const CellResult*> cells;
  for (const CellResult& cell : report.results) {
    if (cell.capacity_blocks == capacity) {
      cells.push_back(&cell);
    }
  }
  return cells;
}

// The policies that compete at one capacity. The bound does not: it knows the future.
struct Contest {
  const CellResult* best =
      nullptr;            // The first of those with the most hit blocks; null without any.
  bool is_alone = false;  // No other has as many.
  std::size_t competitors = 0;
};

Contest FindBest(const std::vector<const CellResult*>& cells) {
  Contest contest;
  for (const CellResult* cell : cells) {
    if (cell->policy == "min") {
      continue;
    }
    ++contest.competitors;
    if (contest.best == nullptr || cell->hit_blocks > contest.best->hit_blocks) {
      contest.best = cell;
      contest.is_alone = true;
    } else if (cell->hit_blocks == contest.best->hit_blocks) {
      contest.is_alone = false;
    }
  }
  return contest;
}

std::string CapacityName(const ReplayReport& report, const CellResult& cell) {
  const CellFigures figures = DeriveFigures(report, cell);
  std::string name = FormatCounted(cell.capacity_blocks, "block", "blocks") + ", " +
                     FormatPercent(figures.capacity_share) + " of distinct";
  if (figures.capacity_bytes.has_value()) {
    name += ", " + FormatBytes(*figures.capacity_bytes);
  }
  return name;
}

std::string PercentagePoints(std::int64_t blocks, std::uint64_t lookups) {
  return FormatDecimal(static_cast<double>(blocks) * 100 /
                           static_cast<double>(std::max<std::uint64_t>(lookups, 1)),
                       2) +
         " pp";
}

// Empty where the ends of the gap are not known.
std::string GapClosed(const CellFigures& figures) {
  if (!figures.gap_ratio.has_value()) {
    return "";
  }
  return figures.gap_closed.has_value() && *figures.gap_ratio >= kGapRatioMin
             ? FormatPercent(*figures.gap_closed)
             : "-";
}

std::string HitSection(const ReplayReport& report) {
  if (report.results.empty()) {
    return "";
  }
  const bool has_bound = std::any_of(report.results.begin(), report.results.end(),
                                     [](const CellResult& cell) { return cell.policy == "min"; });
  std::vector<std::string> header = {"policy", "hit blocks", "blocks", "tokens", "of infinite"};
  if (has_bound) {
    header.emplace_back("below min");
    header.emplace_back("gap closed");
  }
  TextTable table(kIndent);
  table.AddRow(std::move(header));
  bool has_star = false;
  for (const std::uint64_t capacity : Capacities(report)) {
    const auto cells = CellsAt(report, capacity);
    const Contest contest = FindBest(cells);
    table.AddHeading("");
    table.AddHeading(CapacityName(report, *cells.front()));
    for (const CellResult* cell : cells) {
      const CellFigures figures = DeriveFigures(report, *cell);
      const bool is_best = contest.competitors > 1 && contest.is_alone && cell == contest.best;
      has_star = has_star || is_best;
      table.AddRow({"  " + cell->policy + (is_best ? " *" : ""), FormatCount(cell->hit_blocks),
                    FormatPercent(figures.block_ratio), FormatPercent(figures.token_ratio),
                    FormatPercent(figures.share_of_infinite),
                    figures.below_min_blocks.has_value()
                        ? PercentagePoints(*figures.below_min_blocks, cell->lookups)
                        : "",
                    GapClosed(figures)});
    }
  }
  std::string text = Heading("Hits by capacity and policy") + table.ToString();
  text += has_star ? "  *: alone the best at this capacity, min aside.\n" : "";
  text += has_bound ? "  below min: percentage points of block ratio; gap closed: share of the way "
                      "from leaf-lru to min\n  (-: that way is below 0.05 points).\n"
                    : "";
  return text;
}

// What the hits make unnecessary, for the best policy of each capacity (min where it is alone).
std::string SavingSection(const ReplayReport& report) {
  if (report.results.empty()) {
    return "";
  }
  const bool has_time = report.prefill_tokens_per_second > 0;
  const bool has_bytes = report.bytes_per_token > 0;
  std::vector<std::string> header = {"capacity", "policy", "prefill tokens", "of all"};
  if (has_time) {
    header.emplace_back("prefill time");
  }
  if (has_bytes) {
    header.emplace_back("KV reused");
  }
  TextTable table(kIndent);
  table.AddRow(header);
  for (const std::uint64_t capacity : Capacities(report)) {
    const auto cells = CellsAt(report, capacity);
    const Contest contest = FindBest(cells);
    const CellResult* best = contest.best == nullptr ? cells.front() : contest.best;
    const CellFigures figures = DeriveFigures(report, *best);
    std::vector<std::string> row = {
        FormatCounted(capacity, "block", "blocks") + ", " + FormatPercent(figures.capacity_share),
        best->policy, FormatCount(best->hit_tokens), FormatPercent(figures.token_ratio)};
    if (has_time) {
      row.push_back(Seconds(*figures.prefill_seconds_saved));
    }
    if (has_bytes) {
      row.push_back(Bytes(*figures.hit_bytes));
    }
    table.AddRow(std::move(row));
  }
  std::string text = Heading("What the hits of the best policy save") + table.ToString();
  if (has_time) {
    text += "  Prefill time at " +
            FormatCount(static_cast<std::uint64_t>(
                std::llround(std::min(report.prefill_tokens_per_second, 1e18)))) +
            " tokens a second.\n";
  }
  return text;
}

std::string NoteSection(const ReplayReport& report) {
  std::string text = Heading("Notes");
  if (report.stats.infinite.has_value()) {
    text += Bullet(HitDefinition(report.hit_rule));
  }
  for (const std::string& note : ReportNotes(report)) {
    text += Bullet(note);
  }
  if (!report.checks.empty()) {
    text += Bullet("Checked: " + report.checks);
  }
  std::string options = "Options:";
  for (const ReportOption& option : report.options) {
    options += " " + option.name + "=" + option.value;
  }
  return text + Bullet(options);
}

}  // namespace

std::string ToText(const ReplayReport& report) {
  std::string text = "kvferry " + report.version + " replay, mode cache, hit rule " +
                     std::string(ToString(report.hit_rule)) + ", seed " +
                     std::to_string(report.seed) + "\n";
  text += TraceSection(report);
  text += InfiniteSection(report);
  text += LengthSection(report.stats);
  text += ReuseSection(report.stats);
  text += SessionSection(report.stats);
  text += ArrivalSection(report.stats);
  text += HitSection(report);
  text += SavingSection(report);
  text += NoteSection(report);
  return text;
}

}  // namespace kvferry::replay
