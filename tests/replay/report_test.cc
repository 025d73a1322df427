// Derived figures and the three forms of a report.
#include "replay/report.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/replay/small_trace.h"

#include <nlohmann/json.hpp>

namespace kvferry::replay {
namespace {

using testing::MakeTrace;

// Two policies and the bound at one capacity: 2, 4 and 8 hit blocks of 10.
ReplayReport MakeReport() {
  const Trace trace =
      MakeTrace({{0, {1, 2, 3}, 5, "a"}, {1'000, {1, 2, 3, 4}, 7, "a"}, {90'000, {9}}});
  ReplayReport report;
  report.version = "1.2.3";
  report.seed = 7;
  report.options = {{"policy", "all"}, {"capacity", "1%"}};
  report.origin = trace.origin();
  report.stats = ComputeTraceStats(trace, {});
  const auto add = [&](const char* policy, std::uint64_t hit_blocks) {
    CellResult cell;
    cell.policy = policy;
    cell.capacity_blocks = 2;
    cell.lookups = 10;
    cell.lookup_tokens = 100;
    cell.hit_blocks = hit_blocks;
    cell.hit_tokens = hit_blocks * 10 - 1;
    cell.hit_tokens_full_blocks = hit_blocks * 10 - 10;
    cell.requests_with_hit = 1;
    cell.evictions = 3;
    cell.rejected = 4;
    cell.seconds = 0.25;
    report.results.push_back(cell);
  };
  add("leaf-lru", 2);
  add("arc", 4);
  add("min", 8);
  return report;
}

ReplayReport MakeReportWithoutBlocks() {
  TraceBuilder builder;
  builder.BeginStream(0);
  RawRequest request;
  request.input_tokens = 5;
  request.output_tokens = 6;
  KVFERRY_CHECK(builder.Add(request).ok());
  TraceOrigin origin;
  origin.name = "lengths.csv";
  origin.format = "azure";
  origin.has_blocks = false;
  auto trace = builder.Finish(origin, {}, false);
  KVFERRY_CHECK(trace.ok());
  ReplayReport report;
  report.origin = trace->origin();
  report.stats = ComputeTraceStats(*trace, {});
  return report;
}

TEST(DeriveFiguresTest, GapClosedIsTheShareOfTheWayFromLeafLruToMin) {
  const ReplayReport report = MakeReport();

  EXPECT_DOUBLE_EQ(DeriveFigures(report, report.results[0]).gap_closed.value(), 0.0);
  EXPECT_DOUBLE_EQ(DeriveFigures(report, report.results[1]).gap_closed.value(), 2.0 / 6.0);
  EXPECT_DOUBLE_EQ(DeriveFigures(report, report.results[2]).gap_closed.value(), 1.0);
  EXPECT_EQ(DeriveFigures(report, report.results[1]).below_min_blocks.value(), 4);
}

TEST(DeriveFiguresTest, GapClosedIsUnknownWithoutBothEndsOrWithoutAGap) {
  ReplayReport report = MakeReport();
  report.results[2].hit_blocks = 2;
  EXPECT_FALSE(DeriveFigures(report, report.results[1]).gap_closed.has_value());

  report = MakeReport();
  report.results.erase(report.results.begin());
  EXPECT_FALSE(DeriveFigures(report, report.results[0]).gap_closed.has_value());
  EXPECT_TRUE(DeriveFigures(report, report.results[0]).below_min_blocks.has_value());

  report = MakeReport();
  report.results[2].capacity_blocks = 3;
  EXPECT_FALSE(DeriveFigures(report, report.results[1]).gap_closed.has_value());
}

TEST(DeriveFiguresTest, BytesAndSecondsNeedTheirRates) {
  ReplayReport report = MakeReport();
  EXPECT_FALSE(DeriveFigures(report, report.results[0]).capacity_bytes.has_value());
  EXPECT_FALSE(DeriveFigures(report, report.results[0]).prefill_seconds_saved.has_value());

  report.bytes_per_token = 1.5;
  report.prefill_tokens_per_second = 38;
  EXPECT_EQ(DeriveFigures(report, report.results[0]).capacity_bytes.value(), 30U);
  EXPECT_DOUBLE_EQ(DeriveFigures(report, report.results[0]).prefill_seconds_saved.value(), 0.5);
  EXPECT_DOUBLE_EQ(DeriveFigures(report, report.results[0]).hit_bytes.value(), 28.5);
}

TEST(ReportNotesTest, SayWhatTheOptionsImply) {
  ReplayReport report = MakeReport();
  report.origin.notes = {"from the reader"};
  EXPECT_EQ(ReportNotes(report).size(), 1U);

  report.warmup_requests = 12'345;
  report.stores_outputs = true;
  report.origin.skipped_lines = 3;
  report.stats.is_chained = false;
  const auto notes = ReportNotes(report);

  ASSERT_EQ(notes.size(), 5U) << "one a cause";
  EXPECT_EQ(notes[0], "from the reader");
  EXPECT_NE(notes[1].find("3 bad lines"), std::string::npos);
  EXPECT_NE(notes[2].find("12,345 requests"), std::string::npos);
  EXPECT_NE(notes[3].find("Outputs are stored"), std::string::npos);
  EXPECT_NE(notes[4].find("min is no bound"), std::string::npos);
}

TEST(ReportNotesTest, SayWhatTheModelsBytesLeaveOut) {
  ReplayReport report = MakeReport();
  report.model_notes = {"windows are counted as full"};

  EXPECT_EQ(ReportNotes(report), report.model_notes);
  EXPECT_NE(ToText(report).find("windows are counted as full"), std::string::npos);
}

TEST(ReportJsonTest, HasTheNumbersUnderTheirNames) {
  ReplayReport report = MakeReport();
  report.bytes_per_token = 1.5;

  const auto json = nlohmann::json::parse(ToJson(report));

  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["hit_rule"], "prefix");
  EXPECT_EQ(json["options"]["policy"], "all");
  EXPECT_EQ(json["block_refs"], 8);
  EXPECT_EQ(json["distinct_blocks"], 5);
  EXPECT_EQ(json["span_ms"], 90'000);
  EXPECT_EQ(json["infinite"]["hit_blocks"], 3);
  EXPECT_EQ(json["reuse_ms"]["p50"], 1'000);
  EXPECT_EQ(json["reuse_requests"]["max"], 1);
  EXPECT_EQ(json["blocks_by_refs"]["2"], 3);
  EXPECT_EQ(json["sessions"]["kind"], "given");
  EXPECT_EQ(json["sessions"]["gap_ms"]["p50"], 1'000);
  EXPECT_EQ(json["arrivals"]["per_minute"]["max"], 2);
  const auto& cell = json["results"][1];
  EXPECT_EQ(cell["policy"], "arc");
  EXPECT_EQ(cell["capacity_blocks"], 2);
  EXPECT_EQ(cell["capacity_bytes"], 30);
  EXPECT_EQ(cell["hit_blocks"], 4);
  EXPECT_EQ(cell["hit_tokens"], 39);
  EXPECT_EQ(cell["hit_tokens_full_blocks"], 30);
  EXPECT_EQ(cell["evictions"], 3);
  EXPECT_EQ(cell["rejected"], 4);
  EXPECT_DOUBLE_EQ(cell["block_ratio"], 0.4);
  EXPECT_DOUBLE_EQ(cell["token_ratio"], 0.39);
  EXPECT_TRUE(cell["prefill_seconds_saved"].is_null());
  EXPECT_TRUE(cell["hit_blocks"].is_number_integer());
  EXPECT_TRUE(json["lengths"]["input"]["p50"].is_number_integer());
}

TEST(ReportJsonTest, HitNumbersAreNullWithoutBlockIds) {
  const auto json = nlohmann::json::parse(ToJson(MakeReportWithoutBlocks()));

  for (const char* key : {"block_tokens", "block_refs", "distinct_blocks", "infinite", "reuse_ms",
                          "reuse_requests", "blocks_by_refs", "top1pct_share"}) {
    EXPECT_TRUE(json.at(key).is_null()) << key;
  }
  EXPECT_EQ(json["sessions"]["kind"], "none");
  EXPECT_TRUE(json["arrivals"]["per_second"].is_null());
  EXPECT_TRUE(json["results"].empty());
  ASSERT_EQ(json["notes"].size(), 1U);
  EXPECT_NE(json["notes"][0].get<std::string>().find("not defined"), std::string::npos);
}

TEST(ReportJsonTest, AFileNameThatIsNotUtf8IsStillJson) {
  ReplayReport report = MakeReport();
  report.origin.name = "trace\xff.jsonl";

  EXPECT_TRUE(nlohmann::json::accept(ToJson(report)));
}

TEST(ReportJsonTest, EveryDefinitionNamesSomethingThatIsThere) {
  const auto json = nlohmann::json::parse(ToJson(MakeReport()));

  for (const Definition& definition : Definitions()) {
    const std::string name(definition.name);
    const std::size_t dot = name.find('.');
    const std::string key = name.substr(0, dot);
    ASSERT_TRUE(json.contains(key)) << name;
    if (dot == std::string::npos) {
      continue;
    }
    const auto& owner = key == "results" ? json[key][0] : json[key];
    // The capacity in bytes is there only where a model is known.
    EXPECT_TRUE(owner.contains(name.substr(dot + 1)) || name == "results.capacity_bytes") << name;
  }
  EXPECT_EQ(json["definitions"].size(), Definitions().size() + 1);
}

TEST(ReportCsvTest, HasAHeaderAndARowACell) {
  ReplayReport report = MakeReport();
  report.origin.name = "a \"b\", c.jsonl";

  const std::string csv = ToCsv(report);

  std::vector<std::string> lines;
  std::istringstream stream(csv);
  for (std::string line; std::getline(stream, line);) {
    ASSERT_EQ(line.back(), '\r');
    lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].find("trace,hit_rule,policy,capacity_blocks,"), 0U);
  EXPECT_EQ(lines[2],
            "\"a \"\"b\"\", c.jsonl\",prefix,arc,2,0.4,,10,100,4,39,30,1,3,4,0,0.4,0.39,"
            "0.3333333333333333,,0.25\r");
  EXPECT_EQ(std::count(lines[0].begin(), lines[0].end(), ','), 19);
}

TEST(ReportTextTest, FitsInAHundredColumnsAndHasNoControlCharacters) {
  ReplayReport report = MakeReport();
  report.bytes_per_token = 131'072;
  report.model = "llama";
  report.prefill_tokens_per_second = 20'000;
  report.checks = "hits + misses = lookups.";
  report.results[1].policy = "second-sight:lru-head-first";

  std::istringstream stream(ToText(report));
  for (std::string line; std::getline(stream, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }))
        << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
  }
}

TEST(ReportTextTest, ShowsHitsTheBestPolicyAndTheGap) {
  const std::string text = ToText(MakeReport());

  EXPECT_NE(text.find("2 blocks, 40.00% of distinct"), std::string::npos) << text;
  EXPECT_NE(text.find("arc *"), std::string::npos) << text;
  EXPECT_EQ(text.find("min *"), std::string::npos) << text;
  EXPECT_NE(text.find("40.00 pp"), std::string::npos) << text;
  EXPECT_NE(text.find("33.33%"), std::string::npos) << text;
  EXPECT_NE(text.find("longest prefix"), std::string::npos) << text;
  EXPECT_NE(text.find("policy=all capacity=1%"), std::string::npos) << text;
}

// Where two are alike a star at the first would make the order of the options a result.
TEST(ReportTextTest, MarksABestPolicyOnlyWhereItIsAloneBest) {
  ReplayReport report = MakeReport();
  report.results[0].hit_blocks = report.results[1].hit_blocks;

  const std::string text = ToText(report);

  EXPECT_EQ(text.find(" *"), std::string::npos) << text;
  EXPECT_EQ(text.find("*:"), std::string::npos) << text;
}

// A share of a gap of a few blocks is noise: minus hundreds of per cent say nothing.
TEST(ReportTextTest, LeavesOutSharesOfAGapThatIsTiny) {
  ReplayReport report = MakeReport();
  for (CellResult& cell : report.results) {
    cell.lookups = 100'000;
  }
  report.results[0].hit_blocks = 50'000;
  report.results[1].hit_blocks = 49'000;
  report.results[2].hit_blocks = 50'049;  // 0.049 points above.
  EXPECT_EQ(ToText(report).find("-2040.82%"), std::string::npos);
  EXPECT_TRUE(DeriveFigures(report, report.results[1]).gap_closed.has_value());

  report.results[2].hit_blocks = 50'050;
  EXPECT_NE(ToText(report).find("-2000.00%"), std::string::npos);
}

TEST(ReportTextTest, CountsOneInTheSingular) {
  ReplayReport report = MakeReport();
  for (CellResult& cell : report.results) {
    cell.capacity_blocks = 1;
  }
  report.warmup_requests = 1;

  const std::string text = ToText(report);

  EXPECT_NE(text.find("  1 block, "), std::string::npos) << text;
  EXPECT_NE(text.find("The first 1 request warms"), std::string::npos) << text;
  EXPECT_EQ(text.find(" 1 blocks"), std::string::npos) << text;
}

TEST(ReportTextTest, SaysThatHitRatiosAreNotDefinedWithoutBlockIds) {
  const std::string text = ToText(MakeReportWithoutBlocks());

  EXPECT_NE(text.find("hit ratios are not defined"), std::string::npos) << text;
  EXPECT_EQ(text.find("Infinite cache"), std::string::npos) << text;
  EXPECT_NE(text.find("Lengths"), std::string::npos) << text;
}

}  // namespace
}  // namespace kvferry::replay
