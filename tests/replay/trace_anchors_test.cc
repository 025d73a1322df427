// The public traces against numbers that an independent program found for them.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/assert.h"
#include "replay/cell_runner.h"
#include "replay/read_trace.h"
#include "replay/result_checks.h"
#include "replay/text_format.h"
#include "replay/trace_stats.h"
#include "tests/support/shared_traces.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

// Hit blocks at one capacity.
struct CapacityAnchor {
  std::uint32_t percent = 0;
  std::uint32_t capacity_blocks = 0;
  std::uint64_t leaf_lru = 0;
  std::uint64_t lru_head_first = 0;
  std::uint64_t min = 0;
  std::string_view token_ratios;  // Of the three, as printed.
};

// Counts are exact; texts are numbers as the report prints them.
struct TraceAnchor {
  std::string_view name = {};
  std::string_view file = {};
  std::uint32_t block_tokens = 0;  // 0: no block ids.
  std::uint64_t requests = 0;
  std::string_view span = {};
  std::uint64_t input_tokens = 0;
  std::string_view input_lengths = {};   // mean / p50 / p99 / max
  std::string_view output_lengths = {};  // p50 / p99
  std::string_view arrivals = {};        // a second; a minute p1 / p50 / p99 / max; variation
  std::uint64_t distinct_timestamps = 0;
  // What follows needs block ids.
  std::uint64_t block_refs = 0;
  std::uint64_t distinct_blocks = 0;
  std::uint64_t hit_blocks = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t hit_tokens_full_blocks = 0;
  std::uint64_t requests_with_hit = 0;
  std::string_view infinite_ratios = {};  // blocks / tokens / tokens of the second half
  std::string_view reuse_times = {};      // p10 ... max
  std::string_view reuse_requests = {};   // p50 / p90 / p99
  std::vector<std::uint64_t> blocks_by_refs = {};
  std::string_view top_1_percent_share = {};
  // kind; count; single; turns p50 / p90 / p99 / max; gaps in ms p50 / p90 / p99
  std::string_view sessions = {};
  std::vector<CapacityAnchor> capacities = {};
};

void PrintTo(const TraceAnchor& anchor, std::ostream* out) {
  *out << anchor.name;
}

const std::vector<TraceAnchor>& Anchors() {
  static const std::vector<TraceAnchor> anchors = {
      {.name = "MooncakeConversation",
       .file = "traces/mooncake-conversation/conversation_trace.jsonl",
       .block_tokens = 512,
       .requests = 12'031,
       .span = "58.9 min",
       .input_tokens = 144'793'823,
       .input_lengths = "12,035 / 6,909 / 85,401 / 126,195",
       .output_lengths = "350 / 1,120",
       .arrivals = "3.4015; 144 / 207 / 247 / 247; 3.034",
       .distinct_timestamps = 1'180,
       .block_refs = 288'500,
       .distinct_blocks = 182'790,
       .hit_blocks = 105'710,
       .hit_tokens = 54'098'411,
       .hit_tokens_full_blocks = 54'063'104,
       .requests_with_hit = 12'030,
       .infinite_ratios = "36.64% / 37.36% / 39.81%",
       .reuse_times = "0.0 s / 54.0 s / 114.0 s / 4.4 min / 8.7 min / 26.3 min / 50.5 min",
       .reuse_requests = "384 / 1,748 / 5,527",
       .blocks_by_refs = {138'646, 25'455, 17'348, 1'340, 1},
       .top_1_percent_share = "31.65%",
       .sessions = "inferred; 8,076; 6,031; 1 / 2 / 7 / 43; 123,000 / 474,001 / 1,458,000",
       .capacities = {{1, 1'827, 15'136, 15'080, 71'078, "5.35% / 5.33% / 25.12%"},
                      {5, 9'139, 56'479, 56'382, 105'710, "19.96% / 19.93% / 37.36%"},
                      {10, 18'279, 80'466, 80'323, 105'710, "28.44% / 28.39% / 37.36%"},
                      {25, 45'697, 101'978, 101'978, 105'710, "36.04% / 36.04% / 37.36%"},
                      {50, 91'395, 104'759, 104'759, 105'710, "37.03% / 37.03% / 37.36%"}}},
      {.name = "AgenticCoding",
       .file = "traces/agentic-coding/merged.jsonl.zst",
       .block_tokens = 64,
       .requests = 4'373,
       .span = "4.9 h",
       .input_tokens = 545'809'543,
       .input_lengths = "124,814 / 100,177 / 544,148 / 622,801",
       .output_lengths = "209 / 3,498",
       .arrivals = "0.2471; 0 / 11 / 49 / 54; 4.590",
       .distinct_timestamps = 4'373,
       .block_refs = 8'526'116,
       .distinct_blocks = 284'882,
       .hit_blocks = 8'241'234,
       .hit_tokens = 527'438'976,
       .hit_tokens_full_blocks = 527'438'976,
       .requests_with_hit = 4'302,
       .infinite_ratios = "96.66% / 96.63% / 97.68%",
       .reuse_times = "9.0 s / 12.0 s / 19.0 s / 37.0 s / 107.0 s / 13.5 min / 70.8 min",
       .reuse_requests = "8 / 37 / 335",
       .blocks_by_refs = {15'380, 6'797, 53'664, 200'423, 8'618},
       .top_1_percent_share = "6.98%",
       .sessions = "given; 76; 0; 35 / 142 / 219 / 219; 16,000 / 100,000 / 808,000",
       .capacities = {{1, 2'848, 723'368, 338'839, 2'543'930, "8.48% / 3.97% / 29.83%"},
                      {5, 14'244, 4'990'550, 4'536'828, 6'586'897, "58.52% / 53.20% / 77.24%"},
                      {10, 28'488, 7'200'014, 7'021'232, 7'774'171, "84.43% / 82.33% / 91.16%"},
                      {25, 71'220, 8'151'089, 8'148'073, 8'229'091, "95.58% / 95.54% / 96.49%"},
                      {50, 142'441, 8'237'145, 8'237'145, 8'241'234, "96.59% / 96.59% / 96.63%"}}},
      {.name = "AgenticCodingFirst20Minutes",
       .file = "traces/agentic-coding/merged_first20min.jsonl",
       .block_tokens = 64,
       .requests = 133,
       .span = "19.9 min",
       .input_tokens = 18'367'340,
       .input_lengths = "138,100 / 112,617 / 553,724 / 554,049",
       .output_lengths = "223 / 3,943",
       .arrivals = "0.1113; 2 / 5 / 15 / 15; 1.000",
       .distinct_timestamps = 133,
       .block_refs = 286'927,
       .distinct_blocks = 29'463,
       .hit_blocks = 257'464,
       .hit_tokens = 16'477'696,
       .hit_tokens_full_blocks = 16'477'696,
       .requests_with_hit = 126,
       .infinite_ratios = "89.73% / 89.71% / 97.33%",
       .reuse_times = "11.0 s / 12.0 s / 18.0 s / 32.0 s / 69.0 s / 2.5 min / 3.7 min",
       .reuse_requests = "4 / 11 / 19",
       .blocks_by_refs = {2'463, 173, 17'020, 9'807, 0},
       .top_1_percent_share = "4.45%",
       .sessions = "given; 7; 0; 20 / 40 / 40 / 40; 17,000 / 69,000 / 149,000",
       .capacities = {{1, 294, 9'977, 275, 19'679, "3.48% / 0.10% / 6.86%"},
                      {5, 1'473, 42'020, 16'648, 77'646, "14.64% / 5.80% / 27.06%"},
                      {10, 2'946, 80'932, 32'422, 132'633, "28.20% / 11.30% / 46.22%"},
                      {25, 7'365, 151'499, 139'641, 195'969, "52.79% / 48.66% / 68.28%"},
                      {50, 14'731, 206'044, 198'881, 242'035, "71.79% / 69.30% / 84.34%"}}},
      {.name = "RagPulse",
       .file = "traces/ragpulse/d0-4_blk64.jsonl",
       .block_tokens = 64,
       .requests = 5'167,
       .span = "120.0 h",
       .input_tokens = 15'127'791,
       .input_lengths = "2,928 / 3,133 / 5,260 / 7,705",
       .output_lengths = "226 / 909",
       .arrivals = "0.0120; 0 / 0 / 5 / 10; 2.799",
       .distinct_timestamps = 5'101,
       .block_refs = 239'012,
       .distinct_blocks = 164'378,
       .hit_blocks = 74'634,
       .hit_tokens = 4'776'565,
       .hit_tokens_full_blocks = 4'776'512,
       .requests_with_hit = 5'164,
       .infinite_ratios = "31.23% / 31.57% / 31.60%",
       .reuse_times = "9.0 s / 22.0 s / 56.0 s / 3.0 min / 8.0 min / 70.0 min / 8.7 h",
       .reuse_requests = "1 / 5 / 43",
       .blocks_by_refs = {164'000, 250, 0, 16, 112},
       .top_1_percent_share = "100.00%",
       .sessions = "given; 2,899; 1,722; 1 / 3 / 8 / 25; 41,000 / 277,000 / 36,046,000",
       .capacities = {{1, 1'643, 74'074, 74'074, 74'634, "31.34% / 31.34% / 31.57%"},
                      {5, 8'218, 74'634, 74'634, 74'634, "31.57% / 31.57% / 31.57%"},
                      {10, 16'437, 74'634, 74'634, 74'634, "31.57% / 31.57% / 31.57%"},
                      {25, 41'094, 74'634, 74'634, 74'634, "31.57% / 31.57% / 31.57%"},
                      {50, 82'189, 74'634, 74'634, 74'634, "31.57% / 31.57% / 31.57%"}}},
      {.name = "AzureCode",
       .file = "traces/azure-2023/AzureLLMInferenceTrace_code.csv",
       .requests = 8'819,
       .span = "57.3 min",
       .input_tokens = 18'059'974,
       .input_lengths = "2,048 / 1,469 / 7,436 / 7,437",
       .output_lengths = "13 / 252",
       .arrivals = "2.5667; 0 / 111 / 632 / 632; 13.151",
       .distinct_timestamps = 7'807},
      {.name = "AzureConversation",
       .file = "traces/azure-2023/AzureLLMInferenceTrace_conv.csv",
       .requests = 19'366,
       .span = "58.4 min",
       .input_tokens = 22'361'870,
       .input_lengths = "1,155 / 1,020 / 4,142 / 14,050",
       .output_lengths = "129 / 601",
       .arrivals = "5.5304; 37 / 326 / 507 / 507; 1.094",
       .distinct_timestamps = 19'186},
  };
  return anchors;
}

std::string Join(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : separator) + part;
  }
  return text;
}

template <class F>
std::string Slashes(const std::vector<std::uint64_t>& values, F format) {
  std::vector<std::string> parts;
  for (const std::uint64_t value : values) {
    parts.push_back(format(value));
  }
  return Join(parts, " / ");
}

class TraceAnchorsTest : public ::testing::TestWithParam<TraceAnchor> {
 protected:
  void SetUp() override {
    KVFERRY_REQUIRE_SHARED(std::string(GetParam().file));
    ReadOptions options;
    options.paths = {testing::SharedPath(std::string(GetParam().file)).string()};
    options.block_tokens = GetParam().block_tokens;
    auto trace = ReadTrace(options, [](const ReadProgress&) {});
    ASSERT_OK(trace);
    trace_.emplace(std::move(*trace));
    stats_ = ComputeTraceStats(*trace_, {});
  }

  // Hits are spoken of only where there are ids.
  bool has_blocks() const { return GetParam().block_tokens != 0; }

  std::optional<Trace> trace_;
  TraceStats stats_;
};

TEST_P(TraceAnchorsTest, SizeLengthsAndArrivals) {
  const TraceAnchor& anchor = GetParam();

  EXPECT_EQ(stats_.requests, anchor.requests);
  EXPECT_EQ(FormatDuration(stats_.span_ms), anchor.span);
  EXPECT_EQ(stats_.input_tokens, anchor.input_tokens);
  EXPECT_EQ(Slashes({static_cast<std::uint64_t>(stats_.input.mean + 0.5), stats_.input.p50,
                     stats_.input.p99, stats_.input.max},
                    FormatCount),
            anchor.input_lengths);
  EXPECT_EQ(Slashes({stats_.output.p50, stats_.output.p99}, FormatCount), anchor.output_lengths);
  const ArrivalStats& arrivals = stats_.arrivals;
  const MinutePercentiles& minute = arrivals.per_minute;
  EXPECT_EQ(Join({FormatDecimal(arrivals.per_second.value(), 4),
                  Slashes({minute.p1, minute.p50, minute.p99, minute.max}, FormatCount),
                  FormatDecimal(arrivals.gap_variation.value(), 3)},
                 "; "),
            anchor.arrivals);
  EXPECT_EQ(arrivals.distinct_timestamps, anchor.distinct_timestamps);
  EXPECT_EQ(trace_->origin().has_blocks, has_blocks());
  EXPECT_EQ(stats_.infinite.has_value(), has_blocks());
}

TEST_P(TraceAnchorsTest, InfiniteCache) {
  if (!has_blocks()) {
    EXPECT_FALSE(stats_.infinite.has_value());
    return;
  }
  const TraceAnchor& anchor = GetParam();
  const InfiniteCache& infinite = stats_.infinite.value();

  EXPECT_TRUE(trace_->is_chained());
  EXPECT_EQ(stats_.block_refs, anchor.block_refs);
  EXPECT_EQ(stats_.distinct_blocks, anchor.distinct_blocks);
  EXPECT_EQ(infinite.hit_blocks, anchor.hit_blocks);
  EXPECT_EQ(infinite.hit_tokens, anchor.hit_tokens);
  EXPECT_EQ(infinite.hit_tokens_full_blocks, anchor.hit_tokens_full_blocks);
  EXPECT_EQ(infinite.requests_with_hit, anchor.requests_with_hit);
  EXPECT_EQ(Join({FormatPercent(infinite.block_ratio()), FormatPercent(infinite.token_ratio()),
                  FormatPercent(infinite.token_ratio_second_half())},
                 " / "),
            anchor.infinite_ratios);
}

TEST_P(TraceAnchorsTest, ReuseAndPopularity) {
  if (!has_blocks()) {
    EXPECT_FALSE(stats_.reuse.has_value());
    return;
  }
  const TraceAnchor& anchor = GetParam();
  const IntervalPercentiles& ms = stats_.reuse.value().ms;
  const IntervalPercentiles& requests = stats_.reuse.value().requests;
  const BlockPopularity& blocks = stats_.blocks.value();

  EXPECT_EQ(Slashes({ms.p10, ms.p25, ms.p50, ms.p75, ms.p90, ms.p99, ms.max}, FormatDuration),
            anchor.reuse_times);
  EXPECT_EQ(Slashes({requests.p50, requests.p90, requests.p99}, FormatCount),
            anchor.reuse_requests);
  EXPECT_EQ((std::vector<std::uint64_t>{blocks.referenced_once, blocks.referenced_twice,
                                        blocks.referenced_3_to_9, blocks.referenced_10_to_99,
                                        blocks.referenced_100_or_more}),
            anchor.blocks_by_refs);
  EXPECT_EQ(FormatPercent(blocks.top_1_percent_share), anchor.top_1_percent_share);
}

TEST_P(TraceAnchorsTest, Sessions) {
  const SessionStats& sessions = stats_.sessions;
  if (!has_blocks()) {
    EXPECT_EQ(sessions.kind, SessionKind::kNone);
    return;
  }
  const SessionPercentiles& turns = sessions.turns;
  const SessionPercentiles& gaps = sessions.gap_ms.value();

  EXPECT_EQ(Join({std::string(ToString(sessions.kind)), FormatCount(sessions.count),
                  FormatCount(sessions.single),
                  Slashes({turns.p50, turns.p90, turns.p99, turns.max}, FormatCount),
                  Slashes({gaps.p50, gaps.p90, gaps.p99}, FormatCount)},
                 "; "),
            GetParam().sessions);
}

TEST_P(TraceAnchorsTest, HitsByCapacity) {
  const TraceAnchor& anchor = GetParam();
  std::vector<CellSpec> specs;
  for (const CapacityAnchor& at : anchor.capacities) {
    EXPECT_EQ(stats_.distinct_blocks * at.percent / 100, at.capacity_blocks);
    for (const char* policy : {"leaf-lru", "lru-head-first", "min"}) {
      specs.push_back({policy, at.capacity_blocks});
    }
  }

  CellRunOptions options;
  options.jobs = 2;
  const auto results = RunCells(*trace_, specs, options);

  ASSERT_OK(results);
  for (std::size_t i = 0; i < anchor.capacities.size(); ++i) {
    const CapacityAnchor& at = anchor.capacities[i];
    SCOPED_TRACE(::testing::Message() << at.percent << " %");
    std::vector<std::string> token_ratios;
    for (std::size_t cell = 3 * i; cell < 3 * i + 3; ++cell) {
      const CellResult& result = (*results)[cell];
      token_ratios.push_back(FormatPercent(Ratio(result.hit_tokens, result.lookup_tokens)));
    }
    EXPECT_EQ((*results)[3 * i].hit_blocks, at.leaf_lru);
    EXPECT_EQ((*results)[3 * i + 1].hit_blocks, at.lru_head_first);
    EXPECT_EQ((*results)[3 * i + 2].hit_blocks, at.min);
    EXPECT_EQ(Join(token_ratios, " / "), at.token_ratios);
  }
  EXPECT_OK(CheckResults(*trace_, stats_, *results, {}));
}

INSTANTIATE_TEST_SUITE_P(SharedTraces,
                         TraceAnchorsTest,
                         ::testing::ValuesIn(Anchors()),
                         [](const ::testing::TestParamInfo<TraceAnchor>& anchor) {
                           return std::string(anchor.param.name);
                         });

}  // namespace
}  // namespace kvferry::replay
