// Figures, notes and definitions that all forms of the report share.
#include "replay/report.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "replay/text_format.h"

namespace kvferry::replay {
namespace {

constexpr std::array kDefinitions = std::to_array<Definition>({
    {"requests", "Requests of the trace after --from, --to and --limit."},
    {"input_tokens", "Sum of the requests' input lengths, tokens without a block id included."},
    {"output_tokens", "Sum of the requests' output lengths."},
    {"block_refs", "Sum of the numbers of block ids of all requests."},
    {"distinct_blocks", "Blocks referenced at least once; 100% of a capacity given as a share."},
    {"span_ms", "Latest minus earliest request time."},
    {"lengths", "Tokens a request: mean, nearest-rank percentiles and largest."},
    {"infinite",
     "Hits of a cache that never evicts, counted like those of a policy; no policy has more."},
    {"infinite.block_ratio", "infinite.hit_blocks / references looked up after the warm-up."},
    {"infinite.token_ratio", "infinite.hit_tokens / input tokens looked up after the warm-up."},
    {"infinite.token_ratio_second_half",
     "The same over the requests from number floor(requests / 2) on, counted from 0."},
    {"reuse_ms",
     "Milliseconds between two successive references of the same block, over all of them: "
     "nearest-rank percentiles; times that go back count as 0."},
    {"reuse_requests", "The same in positions of requests: 1 is the next request."},
    {"blocks_by_refs", "Distinct blocks by how often the whole trace references them."},
    {"top1pct_share",
     "Of all references but each block's first, the share that goes to the most referenced "
     "floor(distinct_blocks / 100) blocks, at least one."},
    {"sessions",
     "given: requests with the same session id; inferred: a request follows the latest one that "
     "holds its deepest hit block if it reuses all but at most the last of that one's blocks, and "
     "at least two, and a session is a path that ends where no request follows."},
    {"sessions.gap_ms", "Time of a turn minus time of the turn before it in its session."},
    {"arrivals.per_second", "requests / (latest - earliest time)."},
    {"arrivals.per_minute",
     "Requests in each minute from the first request on, empty and last partial minutes included: "
     "nearest-rank percentiles."},
    {"arrivals.gap_variation",
     "Population standard deviation of the gaps between neighbouring requests / their mean."},
    {"results.capacity_share", "capacity_blocks / distinct_blocks."},
    {"results.capacity_bytes",
     "capacity_blocks * block_tokens * bytes a token of the model, rounded."},
    {"results.lookups", "Block references after the warm-up: the denominator of block_ratio."},
    {"results.hit_blocks",
     "Hits in blocks; under the prefix rule those of each request's longest resident prefix, under "
     "the block rule every reference to a resident block."},
    {"results.hit_tokens",
     "Tokens in hit blocks; a last block that is not full counts the tokens that it has."},
    {"results.hit_tokens_full_blocks", "The same without the tokens of blocks that are not full."},
    {"results.requests_with_hit", "Requests with at least one hit block."},
    {"results.evictions", "Blocks resident before a request and not after it."},
    {"results.rejected", "Misses whose block is not resident after its request."},
    {"results.resident_misses",
     "Misses of the prefix rule whose block was resident behind an absent one and stayed."},
    {"results.block_ratio", "hit_blocks / lookups."},
    {"results.token_ratio", "hit_tokens / input tokens of the same requests."},
    {"results.gap_closed",
     "(hit_blocks - those of leaf-lru) / (those of min - those of leaf-lru) at the same capacity."},
    {"results.prefill_seconds_saved", "hit_tokens / prefill rate in tokens a second."},
    {"results.seconds", "Wall time of the cell's own loop, without reading the trace."},
});

// Capacities beyond are no memory that anyone has, but must not overflow an integer.
constexpr double kBytesMax = 9e18;

const CellResult* FindCell(const ReplayReport& report,
                           std::string_view policy,
                           std::uint64_t capacity_blocks) {
  const auto found =
      std::find_if(report.results.begin(), report.results.end(), [&](const CellResult& cell) {
        return cell.policy == policy && cell.capacity_blocks == capacity_blocks;
      });
  return found == report.results.end() ? nullptr : &*found;
}

std::int64_t HitsLess(const CellResult& a, const CellResult& b) {
  return static_cast<std::int64_t>(a.hit_blocks) - static_cast<std::int64_t>(b.hit_blocks);
}

}  // namespace

CellFigures DeriveFigures(const ReplayReport& report, const CellResult& cell) {
  CellFigures figures;
  figures.block_ratio = Ratio(cell.hit_blocks, cell.lookups);
  figures.token_ratio = Ratio(cell.hit_tokens, cell.lookup_tokens);
  figures.capacity_share = Ratio(cell.capacity_blocks, report.stats.distinct_blocks);
  const std::uint64_t most = report.stats.infinite ? report.stats.infinite->hit_blocks : 0;
  figures.share_of_infinite = most == 0 ? 1 : Ratio(cell.hit_blocks, most);
  if (report.bytes_per_token > 0) {
    const double bytes = static_cast<double>(cell.capacity_blocks) * report.origin.block_tokens *
                         report.bytes_per_token;
    figures.capacity_bytes = static_cast<std::uint64_t>(std::llround(std::min(bytes, kBytesMax)));
    figures.hit_bytes = static_cast<double>(cell.hit_tokens) * report.bytes_per_token;
  }
  if (report.prefill_tokens_per_second > 0) {
    figures.prefill_seconds_saved =
        static_cast<double>(cell.hit_tokens) / report.prefill_tokens_per_second;
  }
  const CellResult* bound = FindCell(report, "min", cell.capacity_blocks);
  if (bound == nullptr) {
    return figures;
  }
  figures.below_min_blocks = HitsLess(*bound, cell);
  const CellResult* base = FindCell(report, "leaf-lru", cell.capacity_blocks);
  if (base == nullptr) {
    return figures;
  }
  figures.gap_ratio = static_cast<double>(HitsLess(*bound, *base)) /
                      static_cast<double>(std::max<std::uint64_t>(cell.lookups, 1));
  if (base->hit_blocks != bound->hit_blocks) {
    figures.gap_closed =
        static_cast<double>(HitsLess(cell, *base)) / static_cast<double>(HitsLess(*bound, *base));
  }
  return figures;
}

std::vector<std::string> ReportNotes(const ReplayReport& report) {
  std::vector<std::string> notes = report.origin.notes;
  notes.insert(notes.end(), report.model_notes.begin(), report.model_notes.end());
  if (report.origin.skipped_lines > 0) {
    notes.push_back(FormatCounted(report.origin.skipped_lines, "bad line was", "bad lines were") +
                    " skipped; every number is of the others.");
  }
  if (!report.stats.infinite.has_value()) {
    notes.emplace_back(
        "The trace has no block ids: hit ratios are not defined, only lengths and arrivals are "
        "given.");
    return notes;
  }
  if (report.warmup_requests > 0) {
    notes.push_back(
        "The first " +
        FormatCounted(report.warmup_requests, "request warms the cache and is left",
                      "requests warm the cache and are left") +
        " out of all hits, evictions and "
        "rejections, so min, which bounds the whole run, does not bound what is counted; "
        "the facts about the trace cover all requests.");
  }
  if (report.stores_outputs) {
    notes.emplace_back(
        "Outputs are stored where a later request proves their blocks, also in the infinite cache: "
        "blocks then come without a miss, so misses do not equal rejections, evictions and "
        "residents together, and min is no bound.");
  }
  if (!report.stats.is_chained) {
    notes.emplace_back(report.hit_rule == HitRule::kPrefix
                           ? "The trace's ids are not chained (an id has several predecessors): "
                             "under the prefix rule min is no bound."
                           : "The trace's ids are not chained (an id has several predecessors).");
  }
  return notes;
}

std::span<const Definition> Definitions() {
  return kDefinitions;
}

std::string_view ToString(HitRule rule) {
  return rule == HitRule::kPrefix ? "prefix" : "block";
}

std::string_view HitDefinition(HitRule rule) {
  return rule == HitRule::kPrefix
             ? "A hit is a block in the longest prefix of a request's blocks that is resident when "
               "the request comes; the block ratio is hit blocks / block references, the token "
               "ratio is their tokens / input tokens, and a last block that is not full counts the "
               "tokens that it has."
             : "A hit is a reference to a block that is resident at that moment, whatever stands "
               "before it on its request's path; the block ratio is hits / block references, the "
               "token ratio is their tokens / input tokens, and a last block that is not full "
               "counts the tokens that it has.";
}

}  // namespace kvferry::replay
