// The generated workload: the same on every machine, shaped as its header says, checked options.
#include "replay/workload.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

Trace Generated(const WorkloadOptions& options) {
  Result<Trace> trace = GenerateWorkload(options);
  KVFERRY_EXPECT_OK_AS(EXPECT, trace);
  return trace ? std::move(*trace) : Trace();
}

// Nearest rank: the ceil(p n / 100)-th smallest.
std::uint64_t Percentile(std::vector<std::uint64_t> values, std::uint64_t percent) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const std::uint64_t rank = (percent * values.size() + 99) / 100;
  return values[std::max<std::uint64_t>(rank, 1) - 1];
}

struct SessionView {
  std::vector<std::uint64_t> gaps_ms;
  std::int64_t last_ms = 0;
  std::uint64_t turns = 0;
};

std::vector<SessionView> SessionsOf(const Trace& trace) {
  std::vector<SessionView> sessions(trace.session_count());
  for (const TraceRequest& request : trace.requests()) {
    SessionView& session = sessions[request.session];
    if (session.turns > 0) {
      session.gaps_ms.push_back(static_cast<std::uint64_t>(request.time_ms - session.last_ms));
    }
    session.last_ms = request.time_ms;
    ++session.turns;
  }
  return sessions;
}

template <class Value>
std::vector<std::uint64_t> ValuesOf(const Trace& trace, Value value) {
  std::vector<std::uint64_t> values;
  for (const TraceRequest& request : trace.requests()) {
    values.push_back(value(request));
  }
  return values;
}

std::uint64_t InputOf(const TraceRequest& request) {
  return request.input_tokens;
}
std::uint64_t OutputOf(const TraceRequest& request) {
  return request.output_tokens;
}

WorkloadOptions Only(double WorkloadOptions::*share) {
  WorkloadOptions options;
  options.single_share = options.chat_share = options.agent_share = 0;
  options.*share = 1;
  return options;
}

// Sessions begin for a day, so hardly any is cut off by the end.
WorkloadOptions WholeSessions(double WorkloadOptions::*share, double sessions_per_minute) {
  WorkloadOptions options = Only(share);
  options.requests_max = 1'000'000;
  options.duration_s = 86'400;
  options.block_tokens = 512;  // Decides nothing that is drawn, and large ones are quicker.
  options.sessions_per_minute = sessions_per_minute;
  return options;
}

double InfiniteHitRatio(const Trace& trace) {
  std::vector<bool> is_seen(trace.distinct_blocks());
  std::vector<EntryIndex> path(trace.path_blocks_max());
  std::uint64_t hits = 0;
  for (const TraceRequest& request : trace.requests()) {
    const std::span<EntryIndex> blocks(path.data(), request.block_count);
    trace.ReadPath(request, blocks);
    for (const EntryIndex block : blocks) {
      hits += is_seen[static_cast<std::uint32_t>(block)] ? 1U : 0U;
      is_seen[static_cast<std::uint32_t>(block)] = true;
    }
  }
  return static_cast<double>(hits) / static_cast<double>(trace.block_refs());
}

// A replay of "seed 1" must mean the same tomorrow and elsewhere. Numbers of the report come from
// it.
TEST(WorkloadTest, KeepsTheTraceOfASeed) {
  const Trace trace = Generated({});
  EXPECT_EQ(trace.origin().name, "generated:chat-agents (seed 1)");
  EXPECT_EQ(trace.origin().sha256,
            "0af5ed394fa7eeb293201f1c251c978b358bf88ec20c5c55fce938989b44312e");
  EXPECT_EQ(trace.requests().size(), 20'000U);
  EXPECT_EQ(trace.distinct_blocks(), 229'163U);
  EXPECT_EQ(trace.block_refs(), 2'412'514U);
}

TEST(WorkloadTest, DependsOnTheSeedAndOnNothingElse) {
  WorkloadOptions options;
  options.requests_max = 500;
  const Trace one = Generated(options);
  const Trace same = Generated(options);
  options.seed = 2;
  const Trace other = Generated(options);
  EXPECT_EQ(one.origin().sha256, same.origin().sha256);
  EXPECT_NE(one.origin().sha256, other.origin().sha256);
  EXPECT_EQ(other.origin().name, "generated:chat-agents (seed 2)");
}

TEST(WorkloadTest, IsAChainedTraceOfFullBlocksInTheOrderOfTime) {
  const Trace trace = Generated({});
  EXPECT_TRUE(trace.is_chained());
  EXPECT_TRUE(trace.origin().has_sessions);
  ASSERT_FALSE(trace.origin().notes.empty());
  std::int64_t last_ms = 0;
  for (const TraceRequest& request : trace.requests()) {
    ASSERT_GE(request.time_ms, last_ms);
    ASSERT_EQ(request.block_count, request.input_tokens / 64);
    ASSERT_NE(request.session, kNoSession);
    ASSERT_GT(request.output_tokens, 0U);
    last_ms = request.time_ms;
  }
}

// The statistics that the header cites, within a tenth or so.
TEST(WorkloadTest, SingleCallsHaveTheCitedLengths) {
  const Trace trace = Generated(Only(&WorkloadOptions::single_share));
  EXPECT_EQ(trace.session_count(), trace.requests().size());
  const std::vector<std::uint64_t> inputs = ValuesOf(trace, InputOf);
  const std::vector<std::uint64_t> outputs = ValuesOf(trace, OutputOf);
  EXPECT_NEAR(static_cast<double>(Percentile(inputs, 50)), 1'469, 150);
  EXPECT_NEAR(static_cast<double>(Percentile(inputs, 99)), 7'436, 750);
  EXPECT_NEAR(static_cast<double>(Percentile(outputs, 50)), 13, 1);
  EXPECT_NEAR(static_cast<double>(Percentile(outputs, 99)), 252, 25);
}

TEST(WorkloadTest, ChatsHaveTheCitedTurnsAndGaps) {
  const Trace trace = Generated(WholeSessions(&WorkloadOptions::chat_share, 4));
  std::vector<std::uint64_t> gaps_ms;
  std::uint64_t multi_turn_count = 0;
  std::uint64_t turns_most = 0;
  const std::vector<SessionView> sessions = SessionsOf(trace);
  for (const SessionView& session : sessions) {
    gaps_ms.insert(gaps_ms.end(), session.gaps_ms.begin(), session.gaps_ms.end());
    multi_turn_count += session.turns > 1 ? 1 : 0;
    turns_most = std::max(turns_most, session.turns);
  }
  EXPECT_NEAR(static_cast<double>(multi_turn_count) / static_cast<double>(sessions.size()), 0.73,
              0.02);
  EXPECT_LE(turns_most, 43U);
  EXPECT_GE(turns_most, 30U);
  EXPECT_NEAR(static_cast<double>(Percentile(gaps_ms, 50)), 123'000, 10'000);
  EXPECT_NEAR(static_cast<double>(Percentile(gaps_ms, 90)), 474'000, 40'000);
  EXPECT_NEAR(static_cast<double>(Percentile(gaps_ms, 99)), 1'458'000, 150'000);
  const std::vector<std::uint64_t> outputs = ValuesOf(trace, OutputOf);
  EXPECT_NEAR(static_cast<double>(Percentile(outputs, 50)), 129, 10);
  EXPECT_NEAR(static_cast<double>(Percentile(outputs, 99)), 601, 60);
}

TEST(WorkloadTest, AgentsHaveTheCitedTurnsGapsAndGrowth) {
  const Trace trace = Generated(WholeSessions(&WorkloadOptions::agent_share, 0.2));
  std::vector<std::uint64_t> gaps_ms;
  std::vector<std::uint64_t> turns;
  for (const SessionView& session : SessionsOf(trace)) {
    gaps_ms.insert(gaps_ms.end(), session.gaps_ms.begin(), session.gaps_ms.end());
    turns.push_back(session.turns);
  }
  EXPECT_NEAR(static_cast<double>(Percentile(turns, 50)), 35, 6);
  EXPECT_NEAR(static_cast<double>(Percentile(turns, 90)), 142, 20);
  EXPECT_NEAR(static_cast<double>(Percentile(gaps_ms, 50)), 16'000, 2'000);
  EXPECT_NEAR(static_cast<double>(Percentile(gaps_ms, 90)), 100'000, 30'000);
  EXPECT_NEAR(static_cast<double>(Percentile(gaps_ms, 99)), 810'000, 300'000);
  EXPECT_NEAR(static_cast<double>(Percentile(ValuesOf(trace, OutputOf), 50)), 209, 20);
  EXPECT_NEAR(static_cast<double>(Percentile(ValuesOf(trace, OutputOf), 99)), 3'498, 350);
  // Growth without the answers: what the tools added.
  std::map<std::uint32_t, std::uint64_t> context_tokens;
  std::uint64_t added_tokens = 0;
  std::uint64_t steps = 0;
  for (const TraceRequest& request : trace.requests()) {
    const auto [place, is_new] = context_tokens.try_emplace(request.session, 0);
    if (!is_new && request.input_tokens > place->second) {
      added_tokens += request.input_tokens - place->second;
      ++steps;
    }
    place->second = std::uint64_t{request.input_tokens} + request.output_tokens;
  }
  EXPECT_NEAR(static_cast<double>(added_tokens) / static_cast<double>(steps), 429, 45);
  EXPECT_GT(InfiniteHitRatio(trace), 0.95);
}

// Sharing of prompts: popular ones carry most; without sharing a single call has no hit at all.
TEST(WorkloadTest, PromptsAreSharedByPopularity) {
  WorkloadOptions options = Only(&WorkloadOptions::single_share);
  options.requests_max = 3'000;
  const double common = InfiniteHitRatio(Generated(options));
  options.system_prompts = 100'000;
  options.prompt_exponent = 0;
  const double rare = InfiniteHitRatio(Generated(options));
  EXPECT_GT(common, 0.2);
  EXPECT_LT(rare, 0.01);
}

// Sessions are trees: some request leaves the path of the one before it in its session.
TEST(WorkloadTest, ChatsBranch) {
  const Trace trace = Generated(Only(&WorkloadOptions::chat_share));
  std::vector<std::vector<EntryIndex>> last(trace.session_count());
  std::uint64_t continued_count = 0;
  std::uint64_t branched_count = 0;
  for (const TraceRequest& request : trace.requests()) {
    std::vector<EntryIndex> path(request.block_count);
    trace.ReadPath(request, path);
    std::vector<EntryIndex>& before = last[request.session];
    if (!before.empty()) {
      const bool continues =
          path.size() >= before.size() && std::equal(before.begin(), before.end(), path.begin());
      ++(continues ? continued_count : branched_count);
    }
    before = std::move(path);
  }
  const double share =
      static_cast<double>(branched_count) / static_cast<double>(branched_count + continued_count);
  EXPECT_GT(share, 0.03);
  EXPECT_LT(share, 0.10);
}

TEST(WorkloadTest, EndsByRequestsOrByTime) {
  WorkloadOptions options;
  options.requests_max = 17;
  EXPECT_EQ(Generated(options).requests().size(), 17U);

  options.requests_max = 1'000'000;
  options.duration_s = 600;
  const Trace trace = Generated(options);
  ASSERT_FALSE(trace.requests().empty());
  EXPECT_LT(trace.requests().back().time_ms, 600'000);
  EXPECT_NEAR(static_cast<double>(trace.session_count()), 600, 100);

  options.selection = {.from_ms = 60'000, .requests_max = 5};
  const Trace selected = Generated(options);
  EXPECT_EQ(selected.requests().size(), 5U);
  EXPECT_GE(selected.requests().front().time_ms, 60'000);
}

TEST(WorkloadTest, TakesAnyBlockSize) {
  for (const std::uint32_t block_tokens : {1U, 16U, 100U, 65'536U}) {
    WorkloadOptions options;
    options.requests_max = 50;
    options.block_tokens = block_tokens;
    const Trace trace = Generated(options);
    for (const TraceRequest& request : trace.requests()) {
      ASSERT_EQ(request.block_count, request.input_tokens / block_tokens);
    }
  }
}

TEST(WorkloadTest, RefusesOptionsOutOfRangeAndNamesThem) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const struct {
    std::string_view name;
    void (*break_it)(WorkloadOptions& options);
  } cases[] = {
      {"requests_max",
       [](WorkloadOptions& o) {
         o.requests_max = 0;
       }},
      {"requests_max",
       [](WorkloadOptions& o) {
         o.requests_max = 50'000'001;
       }},
      {"duration_s",
       [](WorkloadOptions& o) {
         o.duration_s = UINT64_MAX;
       }},
      {"sessions_per_minute",
       [](WorkloadOptions& o) {
         o.sessions_per_minute = 0;
       }},
      {"sessions_per_minute",
       [](WorkloadOptions& o) {
         o.sessions_per_minute = kInfinity;
       }},
      {"sessions_per_minute",
       [](WorkloadOptions& o) {
         o.sessions_per_minute = 1e-300;
       }},
      {"sessions_per_minute",
       [](WorkloadOptions& o) {
         o.sessions_per_minute = kInfinity - kInfinity;
       }},
      {"block_tokens",
       [](WorkloadOptions& o) {
         o.block_tokens = 0;
       }},
      {"block_tokens",
       [](WorkloadOptions& o) {
         o.block_tokens = 65'537;
       }},
      {"*_share",
       [](WorkloadOptions& o) {
         o.chat_share = -0.1;
       }},
      {"*_share",
       [](WorkloadOptions& o) {
         o.agent_share = kInfinity;
       }},
      {"*_share",
       [](WorkloadOptions& o) {
         o.single_share = o.chat_share = o.agent_share = 0;
       }},
      {"system_prompts",
       [](WorkloadOptions& o) {
         o.system_prompts = 0;
       }},
      {"agent_prefixes",
       [](WorkloadOptions& o) {
         o.agent_prefixes = 1'000'001;
       }},
      {"prompt_exponent",
       [](WorkloadOptions& o) {
         o.prompt_exponent = -1;
       }},
      {"prompt_exponent",
       [](WorkloadOptions& o) {
         o.prompt_exponent = kInfinity - kInfinity;
       }},
  };
  for (const auto& bad : cases) {
    WorkloadOptions options;
    bad.break_it(options);
    const Result<Trace> trace = GenerateWorkload(options);
    EXPECT_STATUS(trace, StatusCode::kInvalidArgument);
    EXPECT_NE(trace.status().message().find(bad.name), std::string_view::npos) << bad.name;
  }
}

TEST(WorkloadTest, StopsAtTheMemoryLimit) {
  WorkloadOptions options;
  options.memory_max_bytes = 100'000;
  EXPECT_STATUS(GenerateWorkload(options), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace kvferry::replay
