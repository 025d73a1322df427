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

// A queue of what was seen; a block that is not in it is refused and enters it.
template <class Inner>
class NaiveSecondSight final : public EvictionPolicy {
 public:
  explicit NaiveSecondSight(const PolicyOptions& options)
      : inner_(options), seen_max_(std::size_t{4} * options.residents_max) {}
  TouchOrder touch_order() const noexcept override { return inner_.touch_order(); }
  void OnRequest(const Access& /*access*/,
                 std::span<const EntryIndex> /*path*/,
                 std::uint32_t /*leading_resident*/) override {}
  void OnHit(std::span<const EntryIndex> run) override { inner_.OnHit(run); }
  bool Admit(EntryIndex entry) override {
    if (std::count(seen_.begin(), seen_.end(), entry) > 0) {
      return true;
    }
    See(entry);
    return false;
  }
  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    std::erase(seen_, entry);
    inner_.OnInsert(entry, parent);
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    return inner_.TakeVictim(is_held);
  }
  void OnRemove(EntryIndex entry, RemoveReason reason) override {
    inner_.OnRemove(entry, reason);
    See(entry);
  }
  std::size_t Forget(std::span<EntryIndex> /*freed*/) override { return 0; }

 private:
  void See(EntryIndex entry) {
    seen_.push_back(entry);
    if (seen_.size() > seen_max_) {
      seen_.pop_front();
    }
  }

  Inner inner_;
  std::deque<EntryIndex> seen_;
  std::size_t seen_max_;
};

// Two imagined caches and their clocks of insertions; what is not resident and not in the queue of
// the seen is unknown to both.
template <class Inner>
class NaiveAdaptive final : public EvictionPolicy {
 public:
  explicit NaiveAdaptive(const PolicyOptions& options)
      : inner_(options),
        capacity_(options.residents_max),
        window_(std::max<std::uint64_t>(1024, std::uint64_t{2} * options.residents_max)) {}
  TouchOrder touch_order() const noexcept override { return inner_.touch_order(); }
  void OnRequest(const Access& /*access*/,
                 std::span<const EntryIndex> /*path*/,
                 std::uint32_t /*leading_resident*/) override {
    is_strict_ = is_on_;
  }
  void OnHit(std::span<const EntryIndex> run) override {
    for (std::size_t i = run.size(); i-- > 0;) {
      Judge(run[i], true);
    }
    inner_.OnHit(run);
  }
  bool Admit(EntryIndex entry) override {
    const bool is_seen = std::count(seen_.begin(), seen_.end(), entry) > 0;
    Judge(entry, is_seen);
    if (is_seen || !is_strict_) {
      return true;
    }
    See(entry);
    return false;
  }
  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    std::erase(seen_, entry);
    inner_.OnInsert(entry, parent);
  }
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    return inner_.TakeVictim(is_held);
  }
  void OnRemove(EntryIndex entry, RemoveReason reason) override {
    inner_.OnRemove(entry, reason);
    See(entry);
  }
  std::size_t Forget(std::span<EntryIndex> /*freed*/) override { return 0; }

 private:
  struct Sight {
    std::uint64_t plain_until = 0;  // The clock at which the imagined cache drops it.
    std::uint64_t second_until = 0;
    bool is_in_second = false;
  };

  void Judge(EntryIndex entry, bool is_known) {
    Sight& sight = sights_[entry];
    const bool plain_has = is_known && plain_clock_ < sight.plain_until;
    const bool second_has = is_known && sight.is_in_second && second_clock_ < sight.second_until;
    plain_clock_ += plain_has ? 0U : 1U;
    second_clock_ += is_known && !second_has ? 1U : 0U;
    sight = {plain_clock_ + capacity_, second_clock_ + capacity_, is_known};
    gain_ += static_cast<double>(second_has) - static_cast<double>(plain_has);
    if (++refs_ % window_ == 0) {
      older_gain_ = static_cast<double>(static_cast<std::int64_t>(older_gain_) / 2) + gain_;
      gain_ = 0;
      const auto margin = static_cast<double>(window_ / 64);
      is_on_ = older_gain_ > margin || (is_on_ && older_gain_ >= -margin);
    }
  }
  void See(EntryIndex entry) {
    seen_.push_back(entry);
    if (seen_.size() > 4 * capacity_) {
      seen_.pop_front();
    }
  }

  Inner inner_;
  std::uint64_t capacity_;
  std::uint64_t window_;
  std::deque<EntryIndex> seen_;
  std::map<EntryIndex, Sight> sights_;
  std::uint64_t plain_clock_ = 0;
  std::uint64_t second_clock_ = 0;
  std::uint64_t refs_ = 0;
  double gain_ = 0;
  double older_gain_ = 0;
  bool is_on_ = false;
  bool is_strict_ = false;
};

}  // namespace kvferry::testing
