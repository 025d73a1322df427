// TwoQPolicy: newcomers wait in a queue; only what comes back after it left joins the LRU list.
//
// T. Johnson, D. Shasha: 2Q: A Low Overhead High Performance Buffer Management Replacement
// Algorithm, VLDB 1994, the full version.
//
// Am is an LRU list, A1in a FIFO of newcomers, A1out a FIFO that remembers what A1in lost. c is the
// capacity, Kin = c / 4 and Kout = c / 2, both rounded down and at least 1.
//
//   hit x in Am:    move x to the front of Am
//   hit x in A1in:  nothing: touches soon after the first belong together
//   miss x:         note whether x is in A1out
//                   full: if |A1in| > Kin or Am is empty: evict the last of A1in, which goes to the
//                         front of A1out; if |A1out| > Kout: forget the last of A1out
//                         else: evict the last of Am, without a trace
//                   x noted: from A1out to the front of Am; else to the front of A1in
//
// As in the paper, x is still in A1out when room is made; if it is the last there, it is itself the
// one that A1out drops, and still goes to Am. PolicyOptions::remembered_max replaces Kout.
//
// Blocks that the owner takes out by itself leave no trace. Held blocks are passed over, first in
// the list that the rule names, then in the other.
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
class TwoQPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "2q";

  // The sizes that the paper recommends, found good over a wide range of its traces.
  static constexpr std::uint32_t kNewcomerDivisor = 4;    // Kin.
  static constexpr std::uint32_t kRememberedDivisor = 2;  // Kout.

  explicit TwoQPolicy(const PolicyOptions& options);

  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    growth_.OnRequest(access, path, leading_resident);
  }

  void OnHit(std::span<const EntryIndex> run) override {
    for (std::size_t end = run.size(); end > 0;) {
      const std::size_t begin = ChainBegin(lists_, run, end);
      const std::uint32_t first = NumberOf(run[begin]);
      if (place_[first] == kMain) {
        lists_.MoveChainToFront(kMain, first, NumberOf(run[end - 1]));
      }
      end = begin;
    }
  }

  bool Admit(EntryIndex entry) override {
    returns_ = place_[NumberOf(entry)] == kGhost ? NumberOf(entry) : kNoLink;
    return true;
  }

  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    const std::uint32_t inserted = NumberOf(entry);
    departed_.Withdraw(inserted);
    if (place_[inserted] == kGhost) {
      lists_.Unlink(inserted);
      --size_[kGhost];
    }
    Place(inserted, returns_ == inserted ? kMain : kNewcomers, growth_.Predecessor(entry, parent));
    returns_ = kNoLink;
  }

  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    const bool takes_newcomer = size_[kNewcomers] > newcomers_max_ || size_[kMain] == 0;
    std::uint32_t victim = LastNotHeld(lists_, takes_newcomer ? kNewcomers : kMain, is_held);
    if (victim == kNoLink) {
      victim = LastNotHeld(lists_, takes_newcomer ? kMain : kNewcomers, is_held);
    }
    return EntryIndex{victim};
  }

  void OnRemove(EntryIndex entry, RemoveReason reason) override {
    const std::uint32_t removed = NumberOf(entry);
    const std::uint8_t place = place_[removed];
    lists_.Unlink(removed);
    --size_[place];
    if (place != kNewcomers || reason != RemoveReason::kEvicted) {
      Drop(removed);
      return;
    }
    Place(removed, kGhost, kNoEntry);
    if (size_[kGhost] > remembered_max_) {
      const std::uint32_t dropped = lists_.back(kGhost);
      lists_.Unlink(dropped);
      --size_[kGhost];
      Drop(dropped);
    }
  }

  std::size_t Forget(std::span<EntryIndex> freed) override { return departed_.Take(freed); }
  std::size_t memory_bytes() const noexcept override {
    return lists_.memory_bytes() + BytesOf(place_) + departed_.memory_bytes();
  }

 private:
  // Where an entry is; also the numbers of the lists.
  static constexpr std::uint8_t kNowhere = 0;
  static constexpr std::uint8_t kNewcomers = 1;  // A1in.
  static constexpr std::uint8_t kMain = 2;       // Am.
  static constexpr std::uint8_t kGhost = 3;      // A1out.
  static constexpr std::uint8_t kPlaces = 4;

  void Place(std::uint32_t entry, std::uint8_t place, EntryIndex predecessor) {
    const bool has_predecessor = predecessor != kNoEntry && place_[NumberOf(predecessor)] == place;
    PushBehind(lists_, place, entry, has_predecessor ? NumberOf(predecessor) : kNoLink);
    place_[entry] = place;
    ++size_[place];
  }

  void Drop(std::uint32_t entry) {
    place_[entry] = kNowhere;
    departed_.Add(entry);
  }

  EntryLists lists_;
  std::vector<std::uint8_t> place_;
  std::array<std::uint32_t, kPlaces> size_{};
  std::uint32_t newcomers_max_;
  std::uint32_t remembered_max_;
  std::uint32_t returns_ = kNoLink;  // The block between Admit and OnInsert, if it was in A1out.
  PathGrowth growth_;
  DepartedEntries departed_;
};

}  // namespace kvferry::policy
