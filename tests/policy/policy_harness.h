// Random small traces, and the comparison of a policy with its naive reference on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
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

using EntrySet = std::set<std::uint32_t>;

// Requests over a random tree, as conversations that branch: each goes on from a random block that
// exists, or from nothing. With `is_chained` false, requests of random ids from a small set, in
// which a block has many predecessors and may come twice. `requests` 0: a few dozen.
inline replay::Trace MakeRandomTrace(std::uint64_t seed,
                                     bool is_chained,
                                     std::size_t requests = 0) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(random() % bound);
  };
  replay::TraceBuilder builder;
  builder.BeginStream(0);
  std::vector<std::vector<std::uint64_t>> paths = {{}};
  std::uint64_t new_id = 1;
  requests = requests == 0 ? 10 + below(50) : requests;
  const std::size_t alphabet = 4 + below(24);
  for (std::size_t request = 0; request < requests; ++request) {
    std::vector<std::uint64_t> ids;
    if (is_chained) {
      // The later half of what exists more often: conversations go on.
      const std::size_t choice =
          below(2) == 0 ? below(paths.size()) : paths.size() - 1 - below(paths.size() / 2 + 1);
      ids = paths[choice];
      ids.resize(ids.size() - below(ids.size() / 2 + 1));
      for (std::size_t added = below(5); added > 0; --added) {
        ids.push_back(new_id++);
      }
      paths.push_back(ids);
    } else {
      for (std::size_t added = below(8); added > 0; --added) {
        ids.push_back(1 + below(alphabet));
      }
    }
    replay::RawRequest raw;
    raw.time_ms = static_cast<std::int64_t>(request * 100 + below(50));
    raw.input_tokens = static_cast<std::uint32_t>(ids.size() * 16);
    raw.ids = ids;
    EXPECT_TRUE(builder.Add(raw).ok());
  }
  if (!is_chained) {  // So that it is unchained however the dice fell.
    for (const std::vector<std::uint64_t>& ids : {std::vector<std::uint64_t>{1, 2}, {2, 1}}) {
      replay::RawRequest raw;
      raw.time_ms = static_cast<std::int64_t>(requests * 100);
      raw.input_tokens = 32;
      raw.ids = ids;
      EXPECT_TRUE(builder.Add(raw).ok());
    }
  }
  replay::TraceOrigin origin;
  origin.name = "random " + std::to_string(seed);
  origin.block_tokens = 16;
  Result<replay::Trace> trace = builder.Finish(std::move(origin), {}, false);
  EXPECT_TRUE(trace.ok());
  EXPECT_EQ(trace->is_chained(), is_chained);
  return std::move(*trace);
}

// Passes every call on, and notes what is resident before each request.
class RecordingPolicy final : public EvictionPolicy {
 public:
  explicit RecordingPolicy(EvictionPolicy& policy) : policy_(policy) {}

  const std::vector<EntrySet>& residents_before() const { return residents_before_; }
  const EntrySet& residents() const { return residents_; }

  TouchOrder touch_order() const noexcept override { return policy_.touch_order(); }
  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    residents_before_.push_back(residents_);
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

 private:
  EvictionPolicy& policy_;
  EntrySet residents_;
  std::vector<EntrySet> residents_before_;
};

// An admission in front of an inner policy, as one class that is made from PolicyOptions.
template <class Admission, class Inner>
class Behind final : public EvictionPolicy {
 public:
  explicit Behind(const PolicyOptions& options)
      : admission_(std::make_unique<Inner>(options), options) {}

  TouchOrder touch_order() const noexcept override { return admission_.touch_order(); }
  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    admission_.OnRequest(access, path, leading_resident);
  }
  void OnHit(std::span<const EntryIndex> run) override { admission_.OnHit(run); }
  bool Admit(EntryIndex entry) override { return admission_.Admit(entry); }
  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    admission_.OnInsert(entry, parent);
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    return admission_.TakeVictim(is_held);
  }
  void OnRemove(EntryIndex entry, RemoveReason reason) override {
    admission_.OnRemove(entry, reason);
  }
  std::size_t Forget(std::span<EntryIndex> freed) override { return admission_.Forget(freed); }

 private:
  Admission admission_;
};

inline void ExpectSameCounts(const replay::CellResult& actual, const replay::CellResult& expected) {
  EXPECT_EQ(actual.lookups, expected.lookups);
  EXPECT_EQ(actual.hit_blocks, expected.hit_blocks);
  EXPECT_EQ(actual.hit_tokens, expected.hit_tokens);
  EXPECT_EQ(actual.requests_with_hit, expected.requests_with_hit);
  EXPECT_EQ(actual.evictions, expected.evictions);
  EXPECT_EQ(actual.rejected, expected.rejected);
  EXPECT_EQ(actual.resident_misses, expected.resident_misses);
  EXPECT_EQ(actual.resident_end, expected.resident_end);
}

// Plays one trace through both and compares every count and what is resident after every request.
template <class Policy, class Reference>
void ExpectSameCell(const replay::Trace& trace,
                    const replay::CellOptions& cell_options,
                    const PolicyOptions& options) {
  Policy recorded(options);
  RecordingPolicy policy_record(recorded);
  const replay::CellResult by_interface =
      replay::CacheCell<EvictionPolicy>(trace, cell_options, policy_record).Run();
  Reference naive(options);
  RecordingPolicy reference_record(naive);
  const replay::CellResult expected =
      replay::CacheCell<EvictionPolicy>(trace, cell_options, reference_record).Run();
  // The class itself, which the compiler calls and inlines without the interface.
  Policy direct(options);
  const replay::CellResult by_class = replay::CacheCell<Policy>(trace, cell_options, direct).Run();

  ExpectSameCounts(by_interface, expected);
  ExpectSameCounts(by_class, expected);
  ASSERT_EQ(policy_record.residents_before().size(), reference_record.residents_before().size());
  for (std::size_t step = 0; step < policy_record.residents_before().size(); ++step) {
    ASSERT_EQ(policy_record.residents_before()[step], reference_record.residents_before()[step])
        << "before step " << step;
  }
  EXPECT_EQ(policy_record.residents(), reference_record.residents());
}

// Both classes are made from PolicyOptions. `rounds` random traces of both kinds, under both hit
// rules, at capacities from one block up.
template <class Policy, class Reference>
void ExpectEqualsReference(std::size_t rounds = 20, std::uint64_t first_seed = 1) {
  std::cout << "seeds " << first_seed << " to " << first_seed + rounds - 1 << '\n';
  for (std::uint64_t seed = first_seed; seed < first_seed + rounds; ++seed) {
    for (const bool is_chained : {true, false}) {
      const replay::Trace trace = MakeRandomTrace(seed, is_chained);
      for (const replay::HitRule hit_rule : {replay::HitRule::kPrefix, replay::HitRule::kBlock}) {
        for (const std::uint32_t capacity : {1U, 2U, 3U, 7U, 16U, 40U}) {
          SCOPED_TRACE("seed " + std::to_string(seed) + (is_chained ? ", chained" : ", unchained") +
                       (hit_rule == replay::HitRule::kPrefix ? ", prefix" : ", block") +
                       " rule, capacity " + std::to_string(capacity));
          replay::CellOptions cell_options;
          cell_options.capacity_blocks = capacity;
          cell_options.hit_rule = hit_rule;
          PolicyOptions options;
          options.entries_max = trace.distinct_blocks();
          options.residents_max = capacity;
          options.seed = seed;
          ExpectSameCell<Policy, Reference>(trace, cell_options, options);
          if (::testing::Test::HasFatalFailure() || ::testing::Test::HasNonfatalFailure()) {
            return;  // The first seed that fails says enough.
          }
        }
      }
    }
  }
}

}  // namespace kvferry::testing
