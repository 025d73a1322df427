// WTinyLfuPolicy: a small LRU window, then a main part that a block enters only if it is seen more
// often than the one that would have to go.
//
// G. Einziger, R. Friedman, B. Manes: TinyLFU: A Highly Efficient Cache Admission Policy, ACM
// Transactions on Storage 2017; W-TinyLFU is its section 4.
//
// Residents are in the window (LRU) or in the main part, a segmented LRU of probation and protected
// blocks. Each block has a count of its recent touches, resident or not. c is the capacity,
// w = c / 100 rounded down and at least 1 the window, q = 4/5 of c - w rounded down the protected.
//
//   touch x:    (at a hit, or at a miss before room is made) count(x) = min(15, count(x) + 1);
//               once there have been 10 c touches, all counts are halved, and so is their number
//   hit x:      in the window: to its front. In the main part: to the front of protected; if those
//               are more than q: the last of them to the front of probation
//   make room:  v = last of probation, or of protected if that is empty. If the window has fewer
//               than w blocks: evict v. Else d = its last; if there is a v and count(d) > count(v):
//               d to the front of probation, evict v; else evict d
//   miss x:     touch x; make room if full; if the window has w blocks: its last to the front of
//               probation; x to the front of the window
//
// The paper keeps the counts in a sketch, because its keys are many and large, and a doorkeeper
// before it to save space. Here entries have small numbers, so each has a count of its own, four
// bits' worth in a byte: an eighth of what the list links take, and no collisions. What departed
// keeps its number and its count while it is among the last g departed; then its count is zero.
// g = 10 c, as many as one sample can name, unless PolicyOptions::remembered_max says otherwise.
//
// Blocks that the owner takes out by itself leave no trace. Held blocks are passed over.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvferry/policy.h"

#include "policy/departed_entries.h"
#include "policy/entry_chain.h"
#include "policy/entry_list.h"
#include "policy/path_growth.h"

namespace kvferry::policy {

// Thread-compatible.
class WTinyLfuPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "w-tinylfu";

  static constexpr std::uint32_t kWindowDivisor = 100;    // The paper's 1 %.
  static constexpr std::uint32_t kProtectedPercent = 80;  // Of the main part, as in the paper.
  static constexpr std::uint32_t kSampleMultiple = 10;    // Of the capacity.
  static constexpr std::uint8_t kCountMax = 15;           // Four bits.

  explicit WTinyLfuPolicy(const PolicyOptions& options);

  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    growth_.OnRequest(access, path, leading_resident);
  }

  void OnHit(std::span<const EntryIndex> run) override {
    CountRun(run);
    for (std::size_t end = run.size(); end > 0;) {
      const std::size_t begin = ChainBegin(lists_, run, end);
      const std::uint32_t first = NumberOf(run[begin]);
      const std::uint8_t place = place_[first];
      const bool is_promoted = place == kProbation;
      if (is_promoted) {
        for (std::size_t i = begin; i < end; ++i) {
          place_[NumberOf(run[i])] = kProtected;
        }
        size_[kProbation] -= static_cast<std::uint32_t>(end - begin);
        size_[kProtected] += static_cast<std::uint32_t>(end - begin);
      }
      lists_.MoveChainToFront(is_promoted ? kProtected : place, first, NumberOf(run[end - 1]));
      while (size_[kProtected] > protected_max_) {
        MoveToProbation(lists_.back(kProtected));
      }
      end = begin;
    }
  }

  bool Admit(EntryIndex entry) override {
    incoming_ = NumberOf(entry);
    Count(incoming_);
    return true;
  }

  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    const std::uint32_t inserted = NumberOf(entry);
    departed_.Withdraw(inserted);
    if (place_[inserted] == kGhost) {
      lists_.Unlink(inserted);
      --size_[kGhost];
    }
    if (size_[kWindow] >= window_max_) {
      MoveToProbation(lists_.back(kWindow));
    }
    Place(inserted, kWindow, growth_.Predecessor(entry, parent));
    incoming_ = kNoLink;
    TrimGhosts();
  }

  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    const std::uint32_t candidate = LastNotHeld(lists_, kWindow, is_held);
    std::uint32_t victim = LastNotHeld(lists_, kProbation, is_held);
    if (victim == kNoLink) {
      victim = LastNotHeld(lists_, kProtected, is_held);
    }
    if (victim == kNoLink || candidate == kNoLink) {
      return EntryIndex{victim == kNoLink ? candidate : victim};
    }
    if (size_[kWindow] >= window_max_) {
      if (count_[candidate] <= count_[victim]) {
        return EntryIndex{candidate};
      }
      MoveToProbation(candidate);
    }
    return EntryIndex{victim};
  }

  void OnRemove(EntryIndex entry, RemoveReason reason) override {
    const std::uint32_t removed = NumberOf(entry);
    lists_.Unlink(removed);
    --size_[place_[removed]];
    if (reason != RemoveReason::kEvicted) {
      Drop(removed);
      return;
    }
    Place(removed, kGhost, kNoEntry);
    if (incoming_ == kNoLink) {  // Else after the insertion: the newcomer must not lose its count.
      TrimGhosts();
    }
  }

  std::size_t Forget(std::span<EntryIndex> freed) override { return departed_.Take(freed); }
  std::size_t memory_bytes() const noexcept override {
    return lists_.memory_bytes() + BytesOf(place_) + BytesOf(count_) + departed_.memory_bytes();
  }

 private:
  // Where an entry is; also the numbers of the lists.
  static constexpr std::uint8_t kNowhere = 0;
  static constexpr std::uint8_t kWindow = 1;
  static constexpr std::uint8_t kProbation = 2;
  static constexpr std::uint8_t kProtected = 3;
  static constexpr std::uint8_t kGhost = 4;
  static constexpr std::uint8_t kPlaces = 5;

  void Count(std::uint32_t entry) {
    std::uint8_t& count = count_[entry];
    count = static_cast<std::uint8_t>(count + (count < kCountMax ? 1 : 0));
    if (++sampled_count_ >= sample_max_) [[unlikely]] {
      HalveCounts();
    }
  }

  // As Count for each, last first.
  void CountRun(std::span<const EntryIndex> run) {
    if (sampled_count_ + run.size() >= sample_max_) [[unlikely]] {
      for (std::size_t i = run.size(); i > 0; --i) {
        Count(NumberOf(run[i - 1]));
      }
      return;
    }
    for (const EntryIndex entry : run) {
      std::uint8_t& count = count_[NumberOf(entry)];
      count = static_cast<std::uint8_t>(count + (count < kCountMax ? 1 : 0));
    }
    sampled_count_ += run.size();
  }

  void HalveCounts();

  void MoveToProbation(std::uint32_t entry) {
    lists_.Unlink(entry);
    --size_[place_[entry]];
    Place(entry, kProbation, kNoEntry);
  }

  void Place(std::uint32_t entry, std::uint8_t place, EntryIndex predecessor) {
    const bool has_predecessor = predecessor != kNoEntry && place_[NumberOf(predecessor)] == place;
    PushBehind(lists_, place, entry, has_predecessor ? NumberOf(predecessor) : kNoLink);
    place_[entry] = place;
    ++size_[place];
  }

  void TrimGhosts() {
    while (size_[kGhost] > remembered_max_) {
      const std::uint32_t dropped = lists_.back(kGhost);
      lists_.Unlink(dropped);
      --size_[kGhost];
      Drop(dropped);
    }
  }

  void Drop(std::uint32_t entry) {
    place_[entry] = kNowhere;
    count_[entry] = 0;
    departed_.Add(entry);
  }

  EntryLists lists_;
  std::vector<std::uint8_t> place_;
  std::vector<std::uint8_t> count_;
  std::array<std::uint32_t, kPlaces> size_{};
  std::uint32_t window_max_;
  std::uint32_t protected_max_;
  std::uint64_t sample_max_;
  std::uint64_t remembered_max_;
  std::uint64_t sampled_count_ = 0;
  std::uint32_t incoming_ = kNoLink;  // Between Admit and OnInsert.
  PathGrowth growth_;
  DepartedEntries departed_;
};

}  // namespace kvferry::policy
