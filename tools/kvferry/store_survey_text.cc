// A survey as lines for people and as JSON for programs.
#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "base/bytes.h"
#include "store_survey.h"

#include <nlohmann/json.hpp>

namespace kvferry::tool {
namespace {

using Json = nlohmann::ordered_json;
using tiers::SegmentState;
using tiers::SegmentStream;
using tiers::StoreTally;

constexpr std::array kStates = {SegmentState::kClean, SegmentState::kOpen, SegmentState::kSealed,
                                SegmentState::kQuarantined};
constexpr std::array kStreams = {SegmentStream::kNormal, SegmentStream::kProtected};

constexpr std::size_t kShownIdDigits = 16;  // Enough to tell namespaces apart.

// Of the segments that hold blocks.
struct Fill {
  std::uint64_t pages = 0;
  std::uint64_t used_pages = 0;
  std::uint64_t live_pages = 0;
  std::int64_t oldest_unix_ms = 0;
  std::int64_t newest_unix_ms = 0;
};

Fill FillOf(const StoreTally& tally, std::uint32_t pages_per_segment) {
  Fill fill;
  for (const StoreTally::Segment& segment : tally.segments()) {
    if (!segment.is_known || segment.row.state == SegmentState::kClean) {
      continue;
    }
    const std::int64_t opened = segment.row.opened_unix_ms;
    fill.oldest_unix_ms = fill.pages == 0 ? opened : std::min(fill.oldest_unix_ms, opened);
    fill.newest_unix_ms = std::max(fill.newest_unix_ms, opened);
    fill.pages += pages_per_segment;
    fill.used_pages += segment.row.used_pages;
    fill.live_pages += segment.live_pages;
  }
  return fill;
}

std::string Percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "0 %" : std::to_string(100 * part / whole) + " %";
}

std::string Age(std::int64_t then_ms, std::int64_t now_ms) {
  const std::int64_t seconds = std::max<std::int64_t>(0, now_ms - then_ms) / 1000;
  if (seconds < 120) {
    return std::to_string(seconds) + " s";
  }
  if (seconds < 7'200) {
    return std::to_string(seconds / 60) + " min";
  }
  return seconds < 172'800 ? std::to_string(seconds / 3'600) + " h"
                           : std::to_string(seconds / 86'400) + " d";
}

std::string UtcTime(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts = {};
  std::array<char, 32> text{};
  ::gmtime_r(&seconds, &parts);
  return std::string(text.data(), std::strftime(text.data(), text.size(), "%FT%TZ", &parts));
}

class Lines {
 public:
  void Add(std::string name, const std::string& value) {
    name.resize(std::max<std::size_t>(name.size() + 1, 12), ' ');
    text_.append(name).append(value).append(1, '\n');
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddDrives(const StoreSurvey& survey, Lines& lines) {
  for (const DriveFacts& drive : survey.drives) {
    const std::string what = drive.path + ", " + (drive.is_device ? "device of " : "file of ") +
                             FormatBytes(drive.size_bytes);
    if (!drive.is_good()) {
      lines.Add("drive ?", what + ", superblock " + std::string(NameOf(drive.choice.finding)));
      continue;
    }
    const std::string damaged = drive.damaged_copies();
    const tiers::Superblock& superblock = drive.choice.superblock;
    lines.Add("drive " + std::to_string(superblock.drive_index),
              what + (survey.set == nullptr ? ", of store " + ToString(superblock.store) : "") +
                  ", superblock " + std::to_string(superblock.sequence) +
                  (damaged.empty() ? ", its 4 copies good" : ", damaged copies: " + damaged));
  }
}

void AddSegments(const StoreSurvey& survey, std::int64_t now_unix_ms, Lines& lines) {
  const StoreTally& tally = *survey.tally;
  std::string states;
  for (const SegmentState state : kStates) {
    states.append(states.empty() ? "" : ", ").append(NameOf(state));
    states.append(1, ' ').append(std::to_string(tally.CountOf(state)));
  }
  const auto never = std::count_if(tally.segments().begin(), tally.segments().end(),
                                   [](const StoreTally::Segment& s) { return !s.is_known; });
  lines.Add("segments", states + ", never used " + std::to_string(never));
  lines.Add("streams", "normal " + std::to_string(tally.CountOf(SegmentStream::kNormal)) +
                           ", protected " +
                           std::to_string(tally.CountOf(SegmentStream::kProtected)));
  const Fill fill = FillOf(tally, survey.set->layout().pages_per_segment());
  if (fill.pages == 0) {
    return;
  }
  lines.Add("fill", "written " + Percent(fill.used_pages, fill.pages) + ", live " +
                        Percent(fill.live_pages, fill.pages) + " of the segments that hold blocks");
  lines.Add("opened", "the oldest " + Age(fill.oldest_unix_ms, now_unix_ms) + " ago (" +
                          UtcTime(fill.oldest_unix_ms) + "), the newest " +
                          Age(fill.newest_unix_ms, now_unix_ms) + " ago");
}

void AddBlocks(const StoreSurvey& survey, Lines& lines) {
  const StoreTally& tally = *survey.tally;
  const auto describe = [](const StoreTally::Blocks& blocks) {
    return Count(blocks.count, "block") + ", " + FormatBytes(blocks.stored_bytes) + " stored, " +
           FormatBytes(blocks.raw_bytes) + " in host form";
  };
  lines.Add("blocks", describe(tally.blocks()));
  lines.Add("protected", describe(tally.protected_blocks()));
  for (const auto& [number, blocks] : tally.by_namespace()) {
    const auto known = survey.namespaces.find(number);
    lines.Add("namespace " + std::to_string(number),
              describe(blocks) + (known == survey.namespaces.end()
                                      ? ", the manifest does not tell whose"
                                      : ", of tenant " + std::to_string(known->second.tenant) +
                                            ", id " + known->second.id.substr(0, kShownIdDigits)));
  }
}

void ListSegments(const StoreTally& tally, Lines& lines) {
  for (std::size_t number = 0; number < tally.segments().size(); ++number) {
    const StoreTally::Segment& segment = tally.segments()[number];
    lines.Add("segment " + std::to_string(number),
              !segment.is_known ? std::string("never used")
                                : std::string(NameOf(segment.row.state)) + ", " +
                                      std::string(NameOf(segment.row.stream)) + ", generation " +
                                      std::to_string(segment.row.life.generation) + ", opened " +
                                      UtcTime(segment.row.opened_unix_ms) + ", " +
                                      Count(segment.row.used_pages, "page") + " written, " +
                                      std::to_string(segment.live_pages) + " live, " +
                                      Count(segment.blocks, "block"));
  }
}

Json ToJson(const DriveFacts& drive) {
  Json json;
  json["path"] = drive.path;
  json["kind"] = drive.is_device ? "device" : "file";
  json["size_bytes"] = drive.size_bytes;
  json["superblock"] = NameOf(drive.choice.finding);
  if (!drive.is_good()) {
    return json;
  }
  const tiers::Superblock& superblock = drive.choice.superblock;
  json["store"] = ToString(superblock.store);
  json["drive_index"] = superblock.drive_index;
  json["drive_count"] = superblock.drive_count;
  json["sequence"] = superblock.sequence;
  json["segment_count"] = superblock.layout.segment_count;
  json["copies_good"] = drive.choice.is_current;
  return json;
}

Json ToJson(const StoreTally::Blocks& blocks) {
  return {{"count", blocks.count},
          {"stored_bytes", blocks.stored_bytes},
          {"raw_bytes", blocks.raw_bytes}};
}

Json SegmentsToJson(const StoreTally& tally) {
  Json list = Json::array();
  for (std::size_t number = 0; number < tally.segments().size(); ++number) {
    const StoreTally::Segment& segment = tally.segments()[number];
    Json json = {{"segment", number}};
    if (segment.is_known) {
      json["state"] = NameOf(segment.row.state);
      json["stream"] = NameOf(segment.row.stream);
      json["generation"] = segment.row.life.generation;
      json["opened_unix_ms"] = segment.row.opened_unix_ms;
      json["used_pages"] = segment.row.used_pages;
      json["live_pages"] = segment.live_pages;
      json["blocks"] = segment.blocks;
      json["stored_bytes"] = segment.stored_bytes;
    }
    list.push_back(std::move(json));
  }
  return list;
}

void AddTally(const StoreSurvey& survey, Json& json) {
  const StoreTally& tally = *survey.tally;
  Json& segments = json["segments"];
  segments["total"] = tally.segments().size();
  for (const SegmentState state : kStates) {
    segments[std::string(NameOf(state))] = tally.CountOf(state);
  }
  for (const SegmentStream stream : kStreams) {
    json["streams"][std::string(NameOf(stream))] = tally.CountOf(stream);
  }
  const Fill fill = FillOf(tally, survey.set->layout().pages_per_segment());
  json["fill"] = {
      {"pages", fill.pages}, {"used_pages", fill.used_pages}, {"live_pages", fill.live_pages}};
  json["oldest_opened_unix_ms"] = fill.pages == 0 ? Json() : Json(fill.oldest_unix_ms);
  json["newest_opened_unix_ms"] = fill.pages == 0 ? Json() : Json(fill.newest_unix_ms);
  json["blocks"] = ToJson(tally.blocks());
  json["protected"] = ToJson(tally.protected_blocks());
  json["namespaces"] = Json::object();
  for (const auto& [number, blocks] : tally.by_namespace()) {
    Json& told = json["namespaces"][std::to_string(number)] = ToJson(blocks);
    if (const auto known = survey.namespaces.find(number); known != survey.namespaces.end()) {
      told["id"] = known->second.id;
      told["block_bytes"] = known->second.block_bytes;
      told["tenant"] = known->second.tenant;
    }
  }
  json["orphan_rows"] = tally.orphans();
}

}  // namespace

std::string ToText(const StoreSurvey& survey, std::int64_t now_unix_ms, bool lists_segments) {
  Lines lines;
  if (survey.set != nullptr) {
    const tiers::StoreLayout& layout = survey.set->layout();
    lines.Add("store", ToString(survey.set->store()) + ", " +
                           Count(survey.set->drive_count(), "drive") + " of " +
                           Count(layout.segment_count, "segment") + " of " +
                           FormatBytes(layout.segment_bytes));
  }
  AddDrives(survey, lines);
  lines.Add("manifest", survey.manifest.empty() ? "none was read" : survey.manifest);
  if (!survey.manifest.empty()) {
    lines.Add("closed", survey.is_closed
                            ? "orderly"
                            : "no: it is in use, or its process ended without closing it");
  }
  if (survey.tally) {
    AddSegments(survey, now_unix_ms, lines);
    AddBlocks(survey, lines);
  }
  for (const tiers::MetaValue& value : survey.stats) {
    lines.Add(value.name, value.value);
  }
  if (survey.tally && lists_segments) {
    ListSegments(*survey.tally, lines);
  }
  for (const std::string& note : survey.notes) {
    lines.Add("note", note);
  }
  for (const std::string& problem : survey.problems) {
    lines.Add("problem", problem);
  }
  return lines.Take();
}

std::string ToJson(const StoreSurvey& survey, bool lists_segments) {
  Json json;
  json["store"] = survey.set == nullptr ? Json() : Json(ToString(survey.set->store()));
  json["drives"] = Json::array();
  for (const DriveFacts& drive : survey.drives) {
    json["drives"].push_back(ToJson(drive));
  }
  if (survey.set != nullptr) {
    json["segment_bytes"] = survey.set->layout().segment_bytes;
  }
  json["manifest"] = survey.manifest.empty() ? Json() : Json(survey.manifest);
  json["is_closed"] = survey.is_closed;
  if (survey.tally) {
    AddTally(survey, json);
    if (lists_segments) {
      json["segment_list"] = SegmentsToJson(*survey.tally);
    }
  }
  json["stats"] = Json::object();
  for (const tiers::MetaValue& value : survey.stats) {
    const Json parsed = Json::parse(value.value, nullptr, false);
    json["stats"][value.name] = parsed.is_discarded() ? Json(value.value) : parsed;
  }
  json["notes"] = survey.notes;
  json["problems"] = survey.problems;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvferry::tool
