// Naive policies: the words of each definition as code, with no thought for speed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kvferry/policy.h"

namespace kvferry::testing {

// What most references have in common: everything is admitted, nothing is remembered.
class NaivePolicy : public EvictionPolicy {
 public:
  void OnRequest(const Access& /*access*/,
                 std::span<const EntryIndex> /*path*/,
                 std::uint32_t /*leading_resident*/) override {}
  bool Admit(EntryIndex /*entry*/) override { return true; }
  std::size_t Forget(std::span<EntryIndex> /*freed*/) override { return 0; }
};

// The resident with the smallest rank leaves; a subclass says when ranks change.
class NaiveRankPolicy : public NaivePolicy {
 public:
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    EntryIndex victim = kNoEntry;
    for (const auto& [entry, rank] : ranks_) {
      if (!is_held(entry) && (victim == kNoEntry || rank < ranks_.at(victim))) {
        victim = entry;
      }
    }
    return victim;
  }
  void OnRemove(EntryIndex entry, RemoveReason /*reason*/) override { ranks_.erase(entry); }

 protected:
  using Rank = std::pair<std::uint64_t, std::uint64_t>;
  std::map<EntryIndex, Rank> ranks_;
  std::uint64_t now_ = 0;
};

class NaiveLeafLru final : public NaiveRankPolicy {
 public:
  explicit NaiveLeafLru(const PolicyOptions& /*options*/) {}
  void OnHit(std::span<const EntryIndex> run) override {
    for (std::size_t i = run.size(); i-- > 0;) {
      ranks_[run[i]] = {++now_, 0};
    }
  }
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override { ranks_[entry] = {++now_, 0}; }
};

class NaiveLruHeadFirst final : public NaiveRankPolicy {
 public:
  explicit NaiveLruHeadFirst(const PolicyOptions& /*options*/) {}
  TouchOrder touch_order() const noexcept override { return TouchOrder::kHeadFirst; }
  void OnHit(std::span<const EntryIndex> run) override {
    for (const EntryIndex entry : run) {
      ranks_[entry] = {++now_, 0};
    }
  }
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override { ranks_[entry] = {++now_, 0}; }
};

class NaiveFifo final : public NaiveRankPolicy {
 public:
  explicit NaiveFifo(const PolicyOptions& /*options*/) {}
  TouchOrder touch_order() const noexcept override { return TouchOrder::kHeadFirst; }
  void OnHit(std::span<const EntryIndex> /*run*/) override {}
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override { ranks_[entry] = {++now_, 0}; }
};

class NaiveLfu final : public NaiveRankPolicy {
 public:
  explicit NaiveLfu(const PolicyOptions& /*options*/) {}
  void OnHit(std::span<const EntryIndex> run) override {
    for (std::size_t i = run.size(); i-- > 0;) {
      ranks_[run[i]] = {ranks_[run[i]].first + 1, ++now_};
    }
  }
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override { ranks_[entry] = {1, ++now_}; }
};

// CLOCK as a queue whose head is put back, bit cleared, while its bit is set.
class NaiveClock final : public NaivePolicy {
 public:
  explicit NaiveClock(const PolicyOptions& /*options*/) {}
  void OnHit(std::span<const EntryIndex> run) override {
    for (const EntryIndex entry : run) {
      is_hit_[entry] = true;
    }
  }
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override {
    queue_.push_back(entry);
    is_hit_[entry] = false;
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> /*is_held*/) override {
    while (is_hit_[queue_.front()]) {
      is_hit_[queue_.front()] = false;
      queue_.push_back(queue_.front());
      queue_.pop_front();
    }
    return queue_.front();
  }
  void OnRemove(EntryIndex entry, RemoveReason /*reason*/) override { std::erase(queue_, entry); }

 private:
  std::deque<EntryIndex> queue_;
  std::map<EntryIndex, bool> is_hit_;
};

// SIEVE after the paper's algorithm 1, with the hand as a position from the tail.
class NaiveSieve final : public NaivePolicy {
 public:
  explicit NaiveSieve(const PolicyOptions& /*options*/) {}
  void OnHit(std::span<const EntryIndex> run) override {
    for (const EntryIndex entry : run) {
      is_visited_[entry] = true;
    }
  }
  void OnInsert(EntryIndex entry, EntryIndex /*parent*/) override {
    from_tail_.push_back(entry);
    is_visited_[entry] = false;
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> /*is_held*/) override {
    std::size_t at = has_hand_ ? hand_ : 0;
    while (is_visited_[from_tail_[at]]) {
      is_visited_[from_tail_[at]] = false;
      at = at + 1 == from_tail_.size() ? 0 : at + 1;
    }
    // Once the victim has gone, its place is that of the next towards the head, if there is one.
    has_hand_ = at + 1 < from_tail_.size();
    hand_ = at;
    return from_tail_[at];
  }
  void OnRemove(EntryIndex entry, RemoveReason /*reason*/) override {
    std::erase(from_tail_, entry);
  }

 private:
  std::vector<EntryIndex> from_tail_;
  std::map<EntryIndex, bool> is_visited_;
  std::size_t hand_ = 0;
  bool has_hand_ = false;
};

}  // namespace kvferry::testing
