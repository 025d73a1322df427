// Runs of last references against a plain array.
#include "replay/last_references.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/replay/small_trace.h"

namespace kvferry::replay {
namespace {

using testing::MakeRandomRequests;
using testing::MakeTrace;

// What a request finds, by position: the request that referenced its block last.
using Found = std::vector<std::uint32_t>;

Found Spread(const TraceRequest& request, const std::vector<ReferenceRun>& runs) {
  Found found(request.block_count, kNoRequest);
  for (const ReferenceRun& run : runs) {
    std::fill_n(found.begin() + run.position, run.count, run.previous);
  }
  return found;
}

TEST(LastReferencesTest, SplitsAPathWhereItsLastRequestsDiffer) {
  // Request 2 takes one block from request 1 and one from request 0 behind a new block's parent.
  const Trace trace = MakeTrace({{0, {1, 2, 3}}, {0, {1, 4}}, {0, {1, 2, 3, 5}}});
  LastReferences references(trace);
  const auto ignore = [](const ReferenceRun&) {
  };
  references.Reference(trace.requests()[0], ignore);
  references.Reference(trace.requests()[1], ignore);

  std::vector<ReferenceRun> runs;
  const PathReuse reuse = references.Reference(
      trace.requests()[2], [&](const ReferenceRun& run) { runs.push_back(run); });

  EXPECT_EQ(Spread(trace.requests()[2], runs), (Found{1, 0, 0, kNoRequest}));
  EXPECT_EQ(reuse.leading_seen, 3U);
  EXPECT_EQ(reuse.latest, 0U);
}

TEST(LastReferencesTest, KnowsNothingOfANewPathOrAnEmptyOne) {
  // "Not seen" must not read as request 0.
  const Trace trace = MakeTrace({{0, {1}}, {0, {}}, {0, {2}}});
  LastReferences references(trace);

  for (const TraceRequest& request : trace.requests()) {
    const PathReuse reuse =
        references.Reference(request, [](const ReferenceRun&) { ADD_FAILURE(); });
    EXPECT_EQ(reuse.leading_seen, 0U);
    EXPECT_EQ(reuse.latest, kNoRequest);
  }
}

TEST(LastReferencesTest, EqualsAPlainArrayOnRandomTraces) {
  // Chained paths are handled by runs and bisection, others one by one; both must see the same.
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Trace trace = MakeTrace(MakeRandomRequests(seed, seed % 2 == 0));
    std::vector<std::uint32_t> last(trace.distinct_blocks(), kNoRequest);
    LastReferences references(trace);
    std::vector<EntryIndex> path;
    for (std::uint32_t index = 0; index < trace.requests().size(); ++index) {
      const TraceRequest& request = trace.requests()[index];
      path.resize(request.block_count);
      trace.ReadPath(request, path);
      PathReuse expected;
      while (expected.leading_seen < path.size()) {
        const std::uint32_t by = last[static_cast<std::uint32_t>(path[expected.leading_seen])];
        if (by == kNoRequest) {
          break;
        }
        expected.latest = by;
        ++expected.leading_seen;
      }
      Found expected_found;
      for (const EntryIndex entry : path) {
        expected_found.push_back(std::exchange(last[static_cast<std::uint32_t>(entry)], index));
      }

      std::vector<ReferenceRun> runs;
      const PathReuse reuse =
          references.Reference(request, [&](const ReferenceRun& run) { runs.push_back(run); });

      ASSERT_EQ(reuse.leading_seen, expected.leading_seen);
      ASSERT_EQ(reuse.latest, expected.latest);
      if (trace.is_chained()) {
        ASSERT_EQ(Spread(request, runs), expected_found);
      } else {
        // A block may come twice in a request; then both its runs are told.
        ASSERT_EQ(runs.size(),
                  path.size() - static_cast<std::size_t>(std::count(
                                    expected_found.begin(), expected_found.end(), kNoRequest)));
        for (const ReferenceRun& run : runs) {
          ASSERT_EQ(run.count, 1U);
          ASSERT_EQ(run.previous, expected_found[run.position]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvferry::replay
