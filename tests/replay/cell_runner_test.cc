// The grid of cells: same results at any number of jobs, errors before any work.
#include "replay/cell_runner.h"

#include <atomic>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

// Conversations that share a root and come back at random: `requests` of up to 12 blocks.
Trace MakeTrace(std::uint64_t seed, std::size_t requests) {
  Random random(seed);
  TraceBuilder builder;
  builder.BeginStream(0);
  std::vector<std::vector<std::uint64_t>> sessions(20, {1});
  std::uint64_t next_id = 2;
  for (std::size_t i = 0; i < requests; ++i) {
    std::vector<std::uint64_t>& ids = sessions[random.Below(sessions.size())];
    if (ids.size() >= 12) {
      ids.resize(1);
    }
    const std::uint64_t added = 1 + random.Below(3);
    for (std::uint64_t k = 0; k < added; ++k) {
      ids.push_back(next_id++);
    }
    RawRequest request;
    request.time_ms = static_cast<std::int64_t>(i) * 1000;
    request.input_tokens = static_cast<std::uint32_t>(ids.size() * 16);
    request.ids = ids;
    EXPECT_OK(builder.Add(request));
  }
  TraceOrigin origin;
  origin.block_tokens = 16;
  Result<Trace> trace = builder.Finish(origin, {}, false);
  EXPECT_OK(trace);
  return std::move(*trace);
}

CellRunOptions WithJobs(int jobs) {
  CellRunOptions options;
  options.jobs = jobs;
  return options;
}

std::vector<CellSpec> AllCells(std::uint32_t capacity_blocks) {
  std::vector<CellSpec> cells;
  for (const std::string_view name : CellPolicyNames()) {
    cells.push_back({.policy = std::string(name), .capacity_blocks = capacity_blocks});
  }
  return cells;
}

// Cells share the trace and nothing else; a result that depends on its neighbours is a data race.
TEST(CellRunnerTest, GivesTheSameResultsAtAnyNumberOfJobs) {
  const Trace trace = MakeTrace(7, 400);
  const std::vector<CellSpec> cells = AllCells(60);

  const Result<std::vector<CellResult>> serial = RunCells(trace, cells, WithJobs(1));
  const Result<std::vector<CellResult>> parallel = RunCells(trace, cells, WithJobs(4));

  ASSERT_OK(serial);
  ASSERT_OK(parallel);
  ASSERT_EQ(serial->size(), cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    EXPECT_EQ((*serial)[i].policy, cells[i].policy);
    EXPECT_EQ((*serial)[i].hit_blocks, (*parallel)[i].hit_blocks) << cells[i].policy;
    EXPECT_EQ((*serial)[i].evictions, (*parallel)[i].evictions) << cells[i].policy;
    EXPECT_EQ((*serial)[i].rejected, (*parallel)[i].rejected) << cells[i].policy;
  }
}

// A cache that holds everything evicts nothing, whatever its policy.
TEST(CellRunnerTest, EveryPolicyHitsAllThatCanHitWhenEverythingFits) {
  const Trace trace = MakeTrace(11, 300);

  for (const HitRule rule : {HitRule::kPrefix, HitRule::kBlock}) {
    CellRunOptions options;
    options.hit_rule = rule;

    const Result<std::vector<CellResult>> results =
        RunCells(trace, AllCells(trace.distinct_blocks()), options);

    ASSERT_OK(results);
    for (const CellResult& result : *results) {
      EXPECT_EQ(result.hit_blocks, trace.block_refs() - trace.distinct_blocks()) << result.policy;
      EXPECT_EQ(result.evictions, 0U) << result.policy;
    }
  }
}

// No room is a legal size: everything is missed and turned away.
TEST(CellRunnerTest, ACellWithoutRoomRejectsEverything) {
  const Trace trace = MakeTrace(3, 50);

  CellRunOptions options;
  options.warmup_requests = 10;

  const Result<std::vector<CellResult>> results = RunCells(trace, AllCells(0), options);

  ASSERT_OK(results);
  for (const CellResult& result : *results) {
    EXPECT_EQ(result.hit_blocks, 0U);
    EXPECT_EQ(result.rejected, result.lookups);
    EXPECT_LT(result.lookups, trace.block_refs());
  }
}

// A typing mistake must not cost the time of the cells before it.
TEST(CellRunnerTest, RefusesAnUnknownPolicyBeforeAnyCellRuns) {
  const Trace trace = MakeTrace(3, 50);
  std::atomic<std::uint64_t> progress{0};
  const std::vector<CellSpec> cells = {{"leaf-lru", 10}, {"leaf-lur", 10}};

  CellRunOptions options;
  options.progress_refs = &progress;

  const Result<std::vector<CellResult>> results = RunCells(trace, cells, options);

  ASSERT_FALSE(results.has_value());
  EXPECT_STATUS(results, StatusCode::kInvalidArgument);
  EXPECT_NE(results.error().message().find("leaf-lur"), std::string_view::npos);
  EXPECT_NE(results.error().message().find("leaf-lru"), std::string_view::npos);
  EXPECT_EQ(progress.load(), 0U);
}

// The progress bar's total is references times cells; a count that falls short never reaches 100 %.
TEST(CellRunnerTest, CountsEveryReferenceOfEveryCell) {
  const Trace trace = MakeTrace(5, 80);
  std::atomic<std::uint64_t> progress{0};
  const std::vector<CellSpec> cells = AllCells(40);

  CellRunOptions options;
  options.progress_refs = &progress;

  ASSERT_OK(RunCells(trace, cells, options));

  EXPECT_EQ(progress.load(), trace.block_refs() * cells.size());
}

}  // namespace
}  // namespace kvferry::replay
