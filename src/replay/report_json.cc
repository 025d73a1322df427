// The report as one JSON object; the only place of the replay that knows the JSON library.
#include "replay/report.h"

#include <nlohmann/json.hpp>

namespace kvferry::replay {
namespace {

// Keeps the keys in the order of writing, which is the order of reading.
using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json ToJson(const LengthStats& lengths) {
  return {{"mean", lengths.mean},
          {"p50", lengths.p50},
          {"p90", lengths.p90},
          {"p99", lengths.p99},
          {"max", lengths.max}};
}

Json ToJson(const IntervalPercentiles& intervals) {
  return {{"p10", intervals.p10}, {"p25", intervals.p25}, {"p50", intervals.p50},
          {"p75", intervals.p75}, {"p90", intervals.p90}, {"p99", intervals.p99},
          {"max", intervals.max}};
}

Json ToJson(const SessionPercentiles& percentiles) {
  return {{"p50", percentiles.p50},
          {"p90", percentiles.p90},
          {"p99", percentiles.p99},
          {"max", percentiles.max}};
}

Json ToJson(const InfiniteCache& infinite) {
  return {{"hit_blocks", infinite.hit_blocks},
          {"hit_tokens", infinite.hit_tokens},
          {"hit_tokens_full_blocks", infinite.hit_tokens_full_blocks},
          {"requests_with_hit", infinite.requests_with_hit},
          {"block_ratio", infinite.block_ratio()},
          {"token_ratio", infinite.token_ratio()},
          {"token_ratio_second_half", infinite.token_ratio_second_half()}};
}

Json ToJson(const SessionStats& sessions) {
  Json json = {{"kind", ToString(sessions.kind)},
               {"count", nullptr},
               {"single", nullptr},
               {"turns", nullptr},
               {"gap_ms", nullptr}};
  if (sessions.kind != SessionKind::kNone) {
    json["count"] = sessions.count;
    json["single"] = sessions.single;
  }
  if (sessions.count > 0) {
    json["turns"] = ToJson(sessions.turns);
  }
  if (sessions.gap_ms.has_value()) {
    json["gap_ms"] = ToJson(*sessions.gap_ms);
  }
  return json;
}

Json ToJson(const ArrivalStats& arrivals) {
  return {{"per_second", OrNull(arrivals.per_second)},
          {"per_minute",
           {{"p1", arrivals.per_minute.p1},
            {"p50", arrivals.per_minute.p50},
            {"p99", arrivals.per_minute.p99},
            {"max", arrivals.per_minute.max}}},
          {"gap_variation", OrNull(arrivals.gap_variation)},
          {"distinct_timestamps", arrivals.distinct_timestamps}};
}

Json ToJson(const ReplayReport& report, const CellResult& cell) {
  const CellFigures figures = DeriveFigures(report, cell);
  Json json = {{"policy", cell.policy},
               {"capacity_blocks", cell.capacity_blocks},
               {"capacity_share", figures.capacity_share}};
  if (figures.capacity_bytes.has_value()) {
    json["capacity_bytes"] = *figures.capacity_bytes;
  }
  json["lookups"] = cell.lookups;
  json["hit_blocks"] = cell.hit_blocks;
  json["hit_tokens"] = cell.hit_tokens;
  json["hit_tokens_full_blocks"] = cell.hit_tokens_full_blocks;
  json["requests_with_hit"] = cell.requests_with_hit;
  json["evictions"] = cell.evictions;
  json["rejected"] = cell.rejected;
  json["resident_misses"] = cell.resident_misses;
  json["seconds"] = cell.seconds;
  json["block_ratio"] = figures.block_ratio;
  json["token_ratio"] = figures.token_ratio;
  json["gap_closed"] = OrNull(figures.gap_closed);
  json["prefill_seconds_saved"] = OrNull(figures.prefill_seconds_saved);
  return json;
}

// What depends on block ids; null without them.
void AddPathFacts(const TraceStats& stats, Json& json) {
  json["infinite"] = stats.infinite.has_value() ? ToJson(*stats.infinite) : Json(nullptr);
  json["reuse_ms"] = stats.reuse.has_value() ? ToJson(stats.reuse->ms) : Json(nullptr);
  json["reuse_requests"] = stats.reuse.has_value() ? ToJson(stats.reuse->requests) : Json(nullptr);
  json["blocks_by_refs"] = nullptr;
  json["top1pct_share"] = nullptr;
  if (stats.blocks.has_value()) {
    json["blocks_by_refs"] = {{"1", stats.blocks->referenced_once},
                              {"2", stats.blocks->referenced_twice},
                              {"3-9", stats.blocks->referenced_3_to_9},
                              {"10-99", stats.blocks->referenced_10_to_99},
                              {"100+", stats.blocks->referenced_100_or_more}};
    json["top1pct_share"] = stats.blocks->top_1_percent_share;
  }
}

}  // namespace

std::string ToJson(const ReplayReport& report) {
  const TraceStats& stats = report.stats;
  const bool has_blocks = stats.infinite.has_value();
  Json json = {{"version", report.version},
               {"seed", report.seed},
               {"hit_rule", ToString(report.hit_rule)},
               {"options", Json::object()}};
  for (const ReportOption& option : report.options) {
    json["options"][option.name] = option.value;
  }
  json["trace"] = report.origin.name;
  json["sha256"] = report.origin.sha256;
  json["format"] = report.origin.format;
  json["block_tokens"] = has_blocks ? Json(report.origin.block_tokens) : Json(nullptr);
  json["requests"] = stats.requests;
  json["input_tokens"] = stats.input_tokens;
  json["output_tokens"] = stats.output_tokens;
  json["block_refs"] = has_blocks ? Json(stats.block_refs) : Json(nullptr);
  json["distinct_blocks"] = has_blocks ? Json(stats.distinct_blocks) : Json(nullptr);
  json["span_ms"] = stats.span_ms;
  json["skipped_lines"] = report.origin.skipped_lines;
  json["notes"] = ReportNotes(report);
  json["lengths"] = {{"input", ToJson(stats.input)}, {"output", ToJson(stats.output)}};
  AddPathFacts(stats, json);
  json["sessions"] = ToJson(stats.sessions);
  json["arrivals"] = ToJson(stats.arrivals);
  json["results"] = Json::array();
  for (const CellResult& cell : report.results) {
    json["results"].push_back(ToJson(report, cell));
  }
  json["definitions"] = {{"hit", HitDefinition(report.hit_rule)}};
  for (const Definition& definition : Definitions()) {
    json["definitions"][std::string(definition.name)] = definition.sentence;
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvferry::replay
