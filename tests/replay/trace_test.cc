// Tests of TraceBuilder and Trace against a model that keeps every path as a list.
#include "replay/trace.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

using Path = std::vector<std::uint64_t>;

std::vector<std::uint32_t> PathOf(const Trace& trace, const TraceRequest& request) {
  std::vector<EntryIndex> path(request.block_count);
  trace.ReadPath(request, path);
  std::vector<std::uint32_t> numbers;
  for (const EntryIndex entry : path) {
    numbers.push_back(static_cast<std::uint32_t>(entry));
  }
  return numbers;
}

RawRequest Request(std::int64_t time_ms, const Path& ids, std::string_view session = {}) {
  return {.time_ms = time_ms,
          .input_tokens = static_cast<std::uint32_t>(ids.size() * 16),
          .output_tokens = 1,
          .session = session,
          .ids = ids};
}

Trace Finish(TraceBuilder& builder, const TraceSelection& selection = {}) {
  TraceOrigin origin;
  origin.block_tokens = 16;
  Result<Trace> trace = builder.Finish(std::move(origin), selection, true);
  EXPECT_OK(trace);
  return std::move(*trace);
}

// Entry numbers and what they stand for must be one to one, and dense.
template <class Name>
void ExpectSamePaths(const Trace& trace, const std::vector<std::vector<Name>>& wanted) {
  ASSERT_EQ(trace.requests().size(), wanted.size());
  std::map<Name, std::uint32_t> numbers;
  std::map<std::uint32_t, Name> names;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<std::uint32_t> path = PathOf(trace, trace.requests()[i]);
    ASSERT_EQ(path.size(), wanted[i].size()) << "request " << i;
    for (std::size_t j = 0; j < path.size(); ++j) {
      ASSERT_EQ(numbers.try_emplace(wanted[i][j], path[j]).first->second, path[j]);
      ASSERT_EQ(names.try_emplace(path[j], wanted[i][j]).first->second, wanted[i][j]);
    }
  }
  EXPECT_EQ(trace.distinct_blocks(), names.size());
  for (const auto& [number, name] : names) {
    ASSERT_LT(number, names.size());
  }
}

// Paths through a random tree: an id is a node, so it always has the same predecessor.
std::vector<Path> ChainedPaths(Random& random, std::size_t requests) {
  std::vector<Path> paths;
  std::uint64_t next_id = 1;
  for (std::size_t i = 0; i < requests; ++i) {
    Path path;
    if (!paths.empty() && random.Chance(0.8)) {
      path = paths[random.Below(paths.size())];
      path.resize(random.Below(path.size() + 1));
    }
    for (std::uint64_t more = random.Below(12); more > 0; --more) {
      path.push_back(next_id++ * 0x9e3779b97f4a7c15ULL);
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

TEST(TraceBuilderTest, KeepsEveryPathOfChainedIds) {
  constexpr std::uint64_t kSeed = 3;
  RecordProperty("seed", std::to_string(kSeed));
  Random random(kSeed);
  for (int round = 0; round < 30; ++round) {
    const std::vector<Path> paths = ChainedPaths(random, 200);
    TraceBuilder builder;
    builder.BeginStream(0);
    for (const Path& path : paths) {
      ASSERT_OK(builder.Add(Request(0, path)));
    }

    const Trace trace = Finish(builder);

    EXPECT_TRUE(trace.is_chained());
    ExpectSamePaths(trace, paths);
    for (const TraceRequest& request : trace.requests()) {
      const std::vector<std::uint32_t> path = PathOf(trace, request);
      for (std::size_t j = 0; j < path.size(); ++j) {
        const EntryIndex parent = trace.parent(EntryIndex{path[j]});
        ASSERT_EQ(parent, j == 0 ? kNoEntry : EntryIndex{path[j - 1]});
      }
      ASSERT_TRUE(std::is_sorted(path.begin(), path.end())) << "a parent comes first";
    }
  }
}

// Ids with several predecessors: the paths so far must survive the change of representation.
TEST(TraceBuilderTest, KeepsEveryPathWhenIdsContradictChaining) {
  constexpr std::uint64_t kSeed = 4;
  RecordProperty("seed", std::to_string(kSeed));
  Random random(kSeed);
  for (int round = 0; round < 30; ++round) {
    std::vector<Path> paths = ChainedPaths(random, 60);
    for (int i = 0; i < 60; ++i) {
      Path path;
      for (std::uint64_t more = random.Below(12); more > 0; --more) {
        path.push_back(random.Below(30));
      }
      paths.push_back(std::move(path));
    }
    TraceBuilder builder;
    builder.BeginStream(0);
    for (const Path& path : paths) {
      ASSERT_OK(builder.Add(Request(0, path)));
    }

    EXPECT_FALSE(builder.is_chained());
    const Trace trace = Finish(builder);

    EXPECT_FALSE(trace.is_chained());
    ExpectSamePaths(trace, paths);
  }
}

// Ids of single blocks: a block is its id and everything before it.
TEST(TraceBuilderTest, ChainsIdsThatStandForSingleBlocks) {
  constexpr std::uint64_t kSeed = 5;
  RecordProperty("seed", std::to_string(kSeed));
  Random random(kSeed);
  std::vector<std::vector<Path>> wanted;
  TraceBuilder builder;
  builder.BeginStream(0);
  for (int i = 0; i < 500; ++i) {
    Path ids;
    for (std::uint64_t more = random.Below(8); more > 0; --more) {
      ids.push_back(random.Below(3));
    }
    ASSERT_OK(builder.AddUnchainedIds(Request(0, ids)));
    std::vector<Path> names;
    for (std::size_t j = 1; j <= ids.size(); ++j) {
      names.emplace_back(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(j));
    }
    wanted.push_back(std::move(names));
  }

  const Trace trace = Finish(builder);

  EXPECT_TRUE(trace.is_chained());
  ExpectSamePaths(trace, wanted);
}

// Scopes and entry numbers share a table: no pair of them may meet, nor may kinds of ids.
TEST(TraceBuilderTest, TellsScopesApartForBothKindsOfIds) {
  using Name = std::pair<std::uint32_t, Path>;
  TraceBuilder builder;
  std::vector<std::vector<Name>> wanted;
  const Path ids = {0, 1, 2, 3};
  for (std::uint32_t scope = 0; scope < 6; ++scope) {
    builder.BeginStream(scope);
    ASSERT_OK(scope % 2 == 0 ? builder.Add(Request(0, ids))
                             : builder.AddUnchainedIds(Request(0, ids)));
    std::vector<Name> names;
    for (std::size_t j = 1; j <= ids.size(); ++j) {
      names.emplace_back(scope, Path(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(j)));
    }
    wanted.push_back(std::move(names));
  }

  const Trace trace = Finish(builder);

  EXPECT_EQ(trace.distinct_blocks(), 24U);
  ExpectSamePaths(trace, wanted);
}

TEST(TraceBuilderTest, MergesStreamsByTimeAndKeepsEachInOrder) {
  TraceBuilder builder;
  const std::vector<std::vector<std::int64_t>> streams = {{0, 5, 3, 9}, {1, 5, 6}, {}, {5}};
  std::uint32_t tokens = 0;
  for (std::uint32_t stream = 0; stream < streams.size(); ++stream) {
    builder.BeginStream(stream);
    for (const std::int64_t time_ms : streams[stream]) {
      ASSERT_OK(
          builder.Add({.time_ms = time_ms, .input_tokens = ++tokens, .session = {}, .ids = {}}));
    }
  }

  const Trace trace = Finish(builder);

  std::vector<std::uint32_t> order;
  for (const TraceRequest& request : trace.requests()) {
    order.push_back(request.input_tokens);
  }
  // The 3 that comes after a 5 is as late as that 5, and the earlier stream goes first.
  EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 5, 2, 3, 6, 8, 7, 4}));
}

TEST(TraceBuilderTest, SelectsByTimeFromTheFirstRequestAndDropsTheRest) {
  TraceBuilder builder;
  builder.BeginStream(0);
  ASSERT_OK(builder.Add(Request(1'000, {1, 2, 3}, "a")));
  ASSERT_OK(builder.Add(Request(1'500, {1, 2, 4}, "b")));
  ASSERT_OK(builder.Add(Request(2'000, {1, 5}, "a")));
  ASSERT_OK(builder.Add(Request(3'000, {6}, "c")));

  const Trace trace = Finish(builder, {.from_ms = 500, .to_ms = 2'000, .requests_max = 2});

  ASSERT_EQ(trace.requests().size(), 2U);
  EXPECT_EQ(trace.requests()[0].time_ms, 1'500);
  EXPECT_EQ(trace.distinct_blocks(), 4U);  // 1, 2, 4 and 5.
  EXPECT_EQ(trace.session_count(), 2U);
  EXPECT_EQ(trace.requests()[0].session, 0U);
  ExpectSamePaths(trace, std::vector<Path>{{1, 2, 4}, {1, 5}});
}

// A limit that is found out too late is no limit.
TEST(TraceBuilderTest, StopsAboveTheMemoryLimit) {
  constexpr std::uint64_t kLimit = 1 << 20;
  TraceBuilder builder(kLimit);
  builder.BeginStream(0);
  Path ids(100);
  Status status;
  for (std::uint64_t next = 0; status.ok() && next < 10'000'000;) {
    std::generate(ids.begin(), ids.end(), [&] { return next++; });
    status = builder.Add(Request(0, ids));
  }

  EXPECT_STATUS(status, StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("--memory"), std::string_view::npos);
  EXPECT_LT(builder.memory_bytes(), 3 * kLimit);
}

// Chained requests can name far more blocks than fit: giving up chaining must ask first.
TEST(TraceBuilderTest, ChecksTheLimitBeforeItGivesUpChaining) {
  constexpr std::uint64_t kLimit = 4 << 20;
  TraceBuilder builder(kLimit);
  builder.BeginStream(0);
  Path ids(10'000);
  std::generate(ids.begin(), ids.end(), [next = 0ULL]() mutable { return next++; });
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_OK(builder.Add(Request(i, ids)));
  }

  EXPECT_STATUS(builder.Add(Request(0, {5, 5})), StatusCode::kResourceExhausted);
  EXPECT_LT(builder.memory_bytes(), kLimit);
}

TEST(TraceTest, CountsTheTokensOfLastBlocksThatAreNotFull) {
  TraceBuilder builder;
  builder.BeginStream(0);
  const Path ids = {1, 2, 3};
  ASSERT_OK(builder.Add({.input_tokens = 40, .session = {}, .ids = ids}));

  const Trace trace = Finish(builder);

  const TraceRequest& request = trace.requests()[0];
  EXPECT_EQ(trace.BlockTokensAt(request, 0), 16U);
  EXPECT_EQ(trace.BlockTokensAt(request, 2), 8U);
  EXPECT_EQ(trace.BlockTokensAt(request, 3), 0U);
  EXPECT_EQ(trace.PrefixTokens(request, 2), 32U);
  EXPECT_EQ(trace.PrefixTokens(request, 3), 40U);
}

}  // namespace
}  // namespace kvferry::replay
