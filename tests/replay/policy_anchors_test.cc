// Policies on the public traces against figures of other programs.
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "replay/cell_runner.h"
#include "replay/read_trace.h"
#include "tests/support/shared_traces.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

Result<Trace> ReadShared(const std::string& relative) {
  ReadOptions options;
  options.paths = {testing::SharedPath(relative).string()};
  return ReadTrace(options, [](const ReadProgress& /*progress*/) {});
}

struct AnchorRow {
  std::string_view policy;
  HitRule hit_rule = HitRule::kPrefix;
  std::vector<double> ratios;  // At kAnchorCapacities.
};

constexpr std::uint32_t kAnchorCapacities[] = {1'000, 3'000, 5'859, 10'000, 30'000, 50'000, 97'656};

// An independent program's block hit ratios. Its MIN stores every miss, which is the block rule's.
TEST(PolicyAnchorsTest, HitRatiosOnConversationLieWithinHalfAThousandth) {
  KVFERRY_REQUIRE_SHARED("traces/mooncake-conversation/conversation_trace.jsonl");
  const auto trace = ReadShared("traces/mooncake-conversation/conversation_trace.jsonl");
  ASSERT_OK(trace);
  const AnchorRow rows[] = {
      {"fifo", HitRule::kPrefix, {.0434, .0627, .1248, .1815, .2944, .3335, .3560}},
      {"lru-head-first", HitRule::kPrefix, {.0445, .0650, .1355, .2112, .3257, .3546, .3635}},
      {"leaf-lru", HitRule::kPrefix, {.0445, .0653, .1361, .2116, .3257, .3546, .3635}},
      {"clock", HitRule::kPrefix, {.0447, .0674, .1384, .2144, .3290, .3542, .3631}},
      {"lfu", HitRule::kPrefix, {.0481, .0750, .0969, .1322, .2761, .3438, .3631}},
      {"sieve", HitRule::kPrefix, {.0481, .0750, .0969, .1322, .2761, .3438, .3631}},
      {"arc", HitRule::kPrefix, {.0529, .0859, .1442, .2226, .3111, .3437, .3631}},
      {"gdsf", HitRule::kPrefix, {.0447, .0708, .1447, .2174, .3284, .3548, .3631}},
      {"min", HitRule::kBlock, {.1906, .2944, .3531, .3664, .3664, .3664, .3664}},
  };
  for (const AnchorRow& row : rows) {
    std::vector<CellSpec> cells;
    for (const std::uint32_t capacity : kAnchorCapacities) {
      cells.push_back({std::string(row.policy), capacity});
    }
    CellRunOptions options;
    options.hit_rule = row.hit_rule;
    const auto results = RunCells(*trace, cells, options);
    ASSERT_OK(results);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const CellResult& result = (*results)[i];
      EXPECT_NEAR(static_cast<double>(result.hit_blocks) / static_cast<double>(result.lookups),
                  row.ratios[i], .0005)
          << row.policy << " at " << result.capacity_blocks;
    }
  }
}

// libCacheSim plays every reference by itself; where the papers leave nothing open, its misses are
// ours.
void ExpectMissesOfLibCacheSim(const std::string& trace_name, const std::string& file) {
  KVFERRY_REQUIRE_SHARED("traces/reference/libcachesim_block_rule.tsv");
  KVFERRY_REQUIRE_SHARED(file);
  const std::map<std::string, std::string> names = {
      {"LRU", "lru-head-first"}, {"FIFO", "fifo"}, {"Clock", "clock"},
      {"Sieve", "sieve"},        {"LFU", "lfu"},   {"ARC", "arc"},
      {"Belady", "min"}};
  const auto trace = ReadShared(file);
  ASSERT_OK(trace);
  std::vector<CellSpec> cells;
  std::vector<std::uint64_t> misses;
  std::ifstream table(testing::SharedPath("traces/reference/libcachesim_block_rule.tsv"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string name;
    std::string policy;
    std::uint32_t capacity = 0;
    std::uint64_t references = 0;
    std::uint64_t missed = 0;
    fields >> name >> policy >> capacity >> references >> missed;
    if (name == trace_name && names.contains(policy)) {
      EXPECT_EQ(references, trace->block_refs());
      cells.push_back({names.at(policy), capacity});
      misses.push_back(missed);
    }
  }
  ASSERT_EQ(cells.size(), 2 * names.size());
  CellRunOptions options;
  options.hit_rule = HitRule::kBlock;
  const auto results = RunCells(*trace, cells, options);
  ASSERT_OK(results);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    EXPECT_EQ((*results)[i].lookups - (*results)[i].hit_blocks, misses[i])
        << cells[i].policy << " at " << cells[i].capacity_blocks;
  }
}

TEST(PolicyAnchorsTest, BlockRuleEqualsLibCacheSimOnConversation) {
  ExpectMissesOfLibCacheSim("mooncake-conversation",
                            "traces/mooncake-conversation/conversation_trace.jsonl");
}

TEST(PolicyAnchorsTest, BlockRuleEqualsLibCacheSimOnRagpulse) {
  ExpectMissesOfLibCacheSim("ragpulse-d0-4", "traces/ragpulse/d0-4_blk64.jsonl");
}

TEST(PolicyAnchorsTest, BlockRuleEqualsLibCacheSimOnAgenticCoding) {
  ExpectMissesOfLibCacheSim("agentic-coding", "traces/agentic-coding/merged.jsonl.zst");
}

}  // namespace
}  // namespace kvferry::replay
