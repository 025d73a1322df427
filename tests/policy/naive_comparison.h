// ExpectEqualToNaive: a policy in the replay's cell against a naive cache, after every request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/policy.h"

#include "replay/cache_cell.h"
#include "replay/trace.h"

namespace kvferry::testing {

// Small traces with much reuse. Chained: a growing tree of prefixes. Unchained: the same ids behind
// changing predecessors, at times twice in one request.
inline replay::Trace RandomTrace(std::uint64_t seed, bool is_chained, std::uint32_t requests) {
  std::mt19937_64 random(seed);
  const auto draw = [&random](std::uint64_t below) {
    return random() % below;
  };
  replay::TraceBuilder builder;
  builder.BeginStream(0);
  std::vector<std::vector<std::uint64_t>> paths(1);
  std::uint64_t next_id = 1;
  for (std::uint32_t request = 0; request < requests; ++request) {
    std::vector<std::uint64_t> ids;
    if (is_chained) {
      // Recent paths come back more often than old ones.
      const std::uint64_t age = std::min(draw(paths.size()), draw(paths.size()));
      ids = paths[paths.size() - 1 - age];
      ids.resize(std::min<std::uint64_t>(draw(ids.size() + 1), 8));
      for (std::uint64_t added = draw(5); added > 0; --added) {
        ids.push_back(next_id++);
      }
      paths.push_back(ids);
    } else {
      for (std::uint64_t added = 1 + draw(9); added > 0; --added) {
        ids.push_back(std::min(draw(requests / 2), draw(requests / 2)));
      }
    }
    replay::RawRequest raw;
    raw.time_ms = request;
    raw.input_tokens = static_cast<std::uint32_t>(ids.size());
    raw.ids = ids;
    EXPECT_TRUE(builder.Add(raw).ok());
  }
  replay::TraceOrigin origin;
  origin.name = "random";
  origin.block_tokens = 1;
  Result<replay::Trace> trace = builder.Finish(std::move(origin), {}, false);
  EXPECT_TRUE(trace.ok());
  EXPECT_EQ(trace->is_chained(), is_chained);
  return std::move(*trace);
}

// Passes everything on to a policy and keeps the resident set as it was when each request began.
template <class Policy>
class ResidentRecorder final : public EvictionPolicy {
 public:
  explicit ResidentRecorder(Policy& policy) : policy_(policy) {}

  TouchOrder touch_order() const noexcept override { return policy_.touch_order(); }
  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    before_request_.push_back(residents_);
    policy_.OnRequest(access, path, leading_resident);
  }
  void OnHit(std::span<const EntryIndex> run) override { policy_.OnHit(run); }
  bool Admit(EntryIndex entry) override { return policy_.Admit(entry); }
  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    residents_.insert(static_cast<std::uint32_t>(entry));
    policy_.OnInsert(entry, parent);
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    return policy_.TakeVictim(is_held);
  }
  void OnRemove(EntryIndex entry, RemoveReason reason) override {
    residents_.erase(static_cast<std::uint32_t>(entry));
    policy_.OnRemove(entry, reason);
  }
  std::size_t Forget(std::span<EntryIndex> freed) override { return policy_.Forget(freed); }

  // After request i; the last is as it is now.
  const std::set<std::uint32_t>& after_request(std::size_t i) const {
    return i + 1 < before_request_.size() ? before_request_[i + 1] : residents_;
  }

 private:
  Policy& policy_;
  std::set<std::uint32_t> residents_;
  std::vector<std::set<std::uint32_t>> before_request_;
};

// Naive has a constructor from the capacity, Access(entry), which is a hit or a miss that stores,
// and residents(), a std::set.
template <class Policy, class Naive>
void ExpectEqualToNaive(const replay::Trace& trace, std::uint32_t capacity, replay::HitRule rule) {
  SCOPED_TRACE("capacity " + std::to_string(capacity) +
               (trace.is_chained() ? ", chained" : ", unchained") +
               (rule == replay::HitRule::kPrefix ? ", prefix rule" : ", block rule"));
  Policy policy({.entries_max = trace.distinct_blocks(), .residents_max = capacity});
  ResidentRecorder<Policy> recorder(policy);
  replay::CellOptions options;
  options.capacity_blocks = capacity;
  options.hit_rule = rule;
  replay::CacheCell<ResidentRecorder<Policy>> cell(trace, options, recorder);
  const replay::CellResult result = cell.Run();

  Naive naive(capacity);
  std::uint64_t hits = 0;
  std::uint64_t evictions = 0;
  std::size_t step = 0;
  const auto play = [&](std::span<const EntryIndex> path) {
    const std::set<std::uint32_t> before = naive.residents();
    std::size_t leading = 0;
    while (leading < path.size() && before.contains(static_cast<std::uint32_t>(path[leading]))) {
      ++leading;
    }
    hits += leading;
    for (std::size_t i = path.size(); i > 0; --i) {
      naive.Access(static_cast<std::uint32_t>(path[i - 1]));
    }
    const std::set<std::uint32_t> after = naive.residents();
    evictions += static_cast<std::uint64_t>(std::count_if(
        before.begin(), before.end(), [&](std::uint32_t entry) { return !after.contains(entry); }));
    return after == recorder.after_request(step++);
  };
  std::vector<EntryIndex> path(trace.path_blocks_max());
  for (const replay::TraceRequest& request : trace.requests()) {
    const std::span<EntryIndex> blocks(path.data(), request.block_count);
    trace.ReadPath(request, blocks);
    if (rule == replay::HitRule::kPrefix) {
      ASSERT_TRUE(play(blocks)) << "other residents after request " << step - 1;
      continue;
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      ASSERT_TRUE(play(blocks.subspan(i, 1))) << "other residents after reference " << step - 1;
    }
  }
  EXPECT_EQ(result.hit_blocks, hits);
  EXPECT_EQ(result.evictions, evictions);
}

// Chained and unchained, under both rules, from a capacity of one block up to enough that shares of
// a hundredth are more than one block.
template <class Policy, class Naive>
void ExpectEqualToNaiveOnRandomTraces() {
  std::cout << "seeds 1 to 4\n";
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const bool is_chained : {true, false}) {
      const replay::Trace trace = RandomTrace(seed, is_chained, 120);
      for (const replay::HitRule rule : {replay::HitRule::kPrefix, replay::HitRule::kBlock}) {
        for (const std::uint32_t capacity : {1U, 2U, 3U, 5U, 10U, 25U, 60U}) {
          ExpectEqualToNaive<Policy, Naive>(trace, capacity, rule);
          if (::testing::Test::HasFatalFailure()) {
            return;
          }
        }
      }
    }
  }
  SCOPED_TRACE("seed 4");
  for (const bool is_chained : {true, false}) {
    const replay::Trace trace = RandomTrace(4, is_chained, 500);
    ExpectEqualToNaive<Policy, Naive>(trace, 220, replay::HitRule::kPrefix);
  }
}

}  // namespace kvferry::testing
