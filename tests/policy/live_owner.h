// LiveOwner: drives a policy as the engine does, with numbers that run short, holds and erasures.
#pragma once

#include <array>
#include <cstdint>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/policy.h"

namespace kvferry::testing {

// Owns entry numbers, of which there are only as many as residents, remembered ones and one path
// need: a policy that never gives a number back, or too early, is found out.
template <class Policy>
class LiveOwner {
 public:
  LiveOwner(std::uint32_t capacity, std::uint32_t remembered_max, std::uint64_t seed)
      : capacity_(capacity),
        options_{.entries_max = capacity + remembered_max + kPathMax,
                 .residents_max = capacity,
                 .remembered_max = remembered_max,
                 .reports_forgotten = true},
        policy_(options_),
        random_(seed) {
    for (std::uint32_t entry = options_.entries_max; entry > 0; --entry) {
      free_.push_back(EntryIndex{entry - 1});
    }
  }

  // Requests over a key space of `keys`, in which the path from a root is k, k + 1, k + 2 ...
  void Run(std::uint32_t requests, std::uint64_t keys) {
    for (std::uint64_t request = 1; request <= requests; ++request) {
      const std::uint64_t root = Draw(keys / kPathMax) * kPathMax;
      const std::uint64_t length = 1 + Draw(kPathMax / 2);
      ASSERT_NO_FATAL_FAILURE(Request(request, root, length));
      if (Draw(2) == 0) {  // The request grows while it is served.
        ASSERT_NO_FATAL_FAILURE(Request(request, root, length + 1 + Draw(kPathMax / 2)));
      }
      if (Draw(4) == 0) {
        Hold();
      }
      if (Draw(8) == 0) {
        EraseSome();
      }
      ASSERT_NO_FATAL_FAILURE(TakeBackNumbers());
    }
    EXPECT_GT(refused_count_, 0U) << "all were held too rarely to say anything";
    EXPECT_GT(reused_count_, 0U);
  }

 private:
  static constexpr std::uint32_t kPathMax = 8;

  std::uint64_t Draw(std::uint64_t below) { return random_() % below; }

  void Request(std::uint64_t request, std::uint64_t root, std::uint64_t length) {
    ASSERT_LE(length, kPathMax);
    std::vector<EntryIndex> path;
    for (std::uint64_t key = root; key < root + length; ++key) {
      auto [known, is_new] = number_of_.try_emplace(key, kNoEntry);
      if (is_new) {
        ASSERT_FALSE(free_.empty()) << "the policy keeps more numbers than it may";
        known->second = free_.back();
        free_.pop_back();
        key_of_[known->second] = key;
      }
      path.push_back(known->second);
    }
    std::uint32_t leading = 0;
    while (leading < path.size() && residents_.contains(path[leading])) {
      ++leading;
    }
    Access access;
    access.request = request;
    policy_.OnRequest(access, path, leading);
    const bool grows = request == last_request_;
    last_request_ = request;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::size_t position = grows ? i : path.size() - 1 - i;
      const EntryIndex entry = path[position];
      if (residents_.contains(entry)) {
        policy_.OnHit(std::span(path).subspan(position, 1));
        continue;
      }
      ASSERT_NO_FATAL_FAILURE(Store(entry, position > 0 ? path[position - 1] : kNoEntry));
    }
    for (const EntryIndex entry : path) {
      if (!residents_.contains(entry) && never_stored_.contains(entry)) {
        Release(entry);
      }
    }
  }

  void Store(EntryIndex entry, EntryIndex parent) {
    if (!departed_.contains(entry)) {
      never_stored_.insert(entry);
    }
    if (!policy_.Admit(entry)) {
      // Refused, so the policy remembers it until it says otherwise.
      never_stored_.erase(entry);
      departed_.insert(entry);
      return;
    }
    while (residents_.size() >= capacity_) {
      const EntryIndex victim =
          policy_.TakeVictim([this](EntryIndex asked) { return held_.contains(asked); });
      if (victim == kNoEntry) {
        ASSERT_EQ(held_.size(), residents_.size()) << "there was a block that is not held";
        ++refused_count_;
        held_.clear();
        return;
      }
      ASSERT_TRUE(residents_.contains(victim));
      ASSERT_FALSE(held_.contains(victim));
      Remove(victim, RemoveReason::kEvicted);
    }
    residents_.insert(entry);
    never_stored_.erase(entry);
    departed_.erase(entry);
    policy_.OnInsert(entry, parent);
  }

  void Remove(EntryIndex entry, RemoveReason reason) {
    residents_.erase(entry);
    held_.erase(entry);
    departed_.insert(entry);
    policy_.OnRemove(entry, reason);
  }

  void Hold() {
    if (Draw(10) == 0) {
      held_ = residents_;
      return;
    }
    for (const EntryIndex entry : residents_) {
      if (Draw(3) == 0) {
        held_.insert(entry);
      }
    }
    if (Draw(2) == 0) {
      held_.clear();
    }
  }

  void EraseSome() {
    const std::set<EntryIndex> residents = residents_;
    for (const EntryIndex entry : residents) {
      if (Draw(6) == 0) {
        Remove(entry, Draw(2) == 0 ? RemoveReason::kErased : RemoveReason::kFailed);
      }
    }
  }

  void TakeBackNumbers() {
    std::array<EntryIndex, 3> freed;
    for (std::size_t count = policy_.Forget(freed); count > 0; count = policy_.Forget(freed)) {
      for (const EntryIndex entry : std::span(freed).first(count)) {
        ASSERT_TRUE(departed_.contains(entry)) << "a number came back that was not out";
        departed_.erase(entry);
        Release(entry);
        ++reused_count_;
      }
    }
    // What was erased must come back at once, what was evicted at the latest when too many wait.
    ASSERT_LE(departed_.size(), options_.remembered_max);
  }

  void Release(EntryIndex entry) {
    never_stored_.erase(entry);
    number_of_.erase(key_of_.at(entry));
    key_of_.erase(entry);
    free_.push_back(entry);
  }

  std::uint32_t capacity_;
  PolicyOptions options_;
  Policy policy_;
  std::mt19937_64 random_;
  std::vector<EntryIndex> free_;
  std::map<std::uint64_t, EntryIndex> number_of_;
  std::map<EntryIndex, std::uint64_t> key_of_;
  std::set<EntryIndex> residents_;
  std::set<EntryIndex> departed_;      // Were resident; the policy may remember them.
  std::set<EntryIndex> never_stored_;  // Were never resident under this number.
  std::set<EntryIndex> held_;
  std::uint64_t last_request_ = 0;
  std::uint64_t refused_count_ = 0;
  std::uint64_t reused_count_ = 0;
};

template <class Policy>
void ExpectLiveUseIsSound() {
  std::cout << "seeds 1 and 2\n";
  for (const std::uint64_t seed : {1U, 2U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LiveOwner<Policy>(1, 1, seed).Run(1'000, 64);
    LiveOwner<Policy>(6, 4, seed).Run(2'000, 128);
    LiveOwner<Policy>(40, 60, seed).Run(2'000, 512);
  }
}

}  // namespace kvferry::testing
