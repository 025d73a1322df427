// ArcPolicy: adaptive replacement cache, a balance of recency and frequency that tunes itself.
//
// N. Megiddo, D. Modha: ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST 2003, figure 4.
//
// Residents seen once are in T1, residents seen again in T2, both most recent first; B1 and B2
// remember what left them. c is the capacity, p the size that T1 should have, a real number.
//
//   hit x:       move x to the front of T2
//   miss x:      in B1: p = min(c, p + max(1, |B2| / |B1|))   (a real quotient, before x leaves B1)
//                in B2: p = max(0, p - max(1, |B1| / |B2|))
//                full:  take from T1 if |T1| > p, or |T1| = p and x in B2; else from T2
//                       (from the other one where that one is empty); the victim goes to the
//                       front of its B
//                x from B1 or B2 to the front of T2, else x to the front of T1
//                while |T1| + |B1| > c: forget the last of B1
//                while |B1| + |B2| > g: forget the last of B2
//
// g = c unless PolicyOptions::remembered_max is lower; then B1's last goes where B1 is the longer.
// The figure trims before it replaces, and drops the last of a T1 of size c without a trace; both
// come out the same: a list that is trimmed has an older entry than the one that just came in, and
// that T1's victim would be the only entry of B1, trimmed at once.
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
class ArcPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "arc";

  explicit ArcPolicy(const PolicyOptions& options);

  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    growth_.OnRequest(access, path, leading_resident);
  }

  void OnHit(std::span<const EntryIndex> run) override {
    for (std::size_t end = run.size(); end > 0;) {
      const std::size_t begin = ChainBegin(lists_, run, end);
      const std::uint32_t first = NumberOf(run[begin]);
      if (place_[first] == kT1) {
        for (std::size_t i = begin; i < end; ++i) {
          place_[NumberOf(run[i])] = kT2;
        }
        size_[kT1] -= static_cast<std::uint32_t>(end - begin);
        size_[kT2] += static_cast<std::uint32_t>(end - begin);
      }
      lists_.MoveChainToFront(kT2, first, NumberOf(run[end - 1]));
      end = begin;
    }
  }

  bool Admit(EntryIndex entry) override {
    incoming_ = NumberOf(entry);
    if (place_[incoming_] != kNowhere) {
      Adapt(place_[incoming_]);
    }
    return true;
  }

  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    const std::uint32_t inserted = NumberOf(entry);
    departed_.Withdraw(inserted);
    const bool is_remembered = place_[inserted] != kNowhere;
    if (is_remembered) {
      lists_.Unlink(inserted);
      --size_[place_[inserted]];
    }
    Place(inserted, is_remembered ? kT2 : kT1, growth_.Predecessor(entry, parent));
    incoming_ = kNoLink;
    TrimGhosts();
  }

  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    const bool is_incoming_from_b2 = incoming_ != kNoLink && place_[incoming_] == kB2;
    const auto t1_size = static_cast<double>(size_[kT1]);
    const bool takes_t1 =
        size_[kT1] > 0 && (t1_size > target_ || (is_incoming_from_b2 && t1_size == target_));
    std::uint32_t victim = LastNotHeld(lists_, takes_t1 ? kT1 : kT2, is_held);
    if (victim == kNoLink) {
      victim = LastNotHeld(lists_, takes_t1 ? kT2 : kT1, is_held);
    }
    return EntryIndex{victim};
  }

  void OnRemove(EntryIndex entry, RemoveReason reason) override {
    const std::uint32_t removed = NumberOf(entry);
    const std::uint8_t place = place_[removed];
    lists_.Unlink(removed);
    --size_[place];
    if (reason != RemoveReason::kEvicted) {
      Drop(removed);
      return;
    }
    Place(removed, place == kT1 ? kB1 : kB2, kNoEntry);
    if (incoming_ == kNoLink) {
      TrimGhosts();
    }
  }

  std::size_t Forget(std::span<EntryIndex> freed) override { return departed_.Take(freed); }
  std::size_t memory_bytes() const noexcept override {
    return lists_.memory_bytes() + BytesOf(place_) + departed_.memory_bytes();
  }

 private:
  // Where an entry is; also the numbers of the lists. Ghosts come last.
  static constexpr std::uint8_t kNowhere = 0;
  static constexpr std::uint8_t kT1 = 1;
  static constexpr std::uint8_t kT2 = 2;
  static constexpr std::uint8_t kB1 = 3;
  static constexpr std::uint8_t kB2 = 4;
  static constexpr std::uint8_t kPlaces = 5;

  // A hit in a ghost list: the other kind would have been worth more room.
  void Adapt(std::uint8_t ghost);

  void Place(std::uint32_t entry, std::uint8_t place, EntryIndex predecessor) {
    place_[entry] = place;
    ++size_[place];
    const bool has_predecessor = predecessor != kNoEntry && place_[NumberOf(predecessor)] == place;
    PushBehind(lists_, place, entry, has_predecessor ? NumberOf(predecessor) : kNoLink);
  }

  void TrimGhosts() {
    while (size_[kT1] + size_[kB1] > capacity_ && size_[kB1] > 0) {
      DropLast(kB1);
    }
    while (size_[kB1] + size_[kB2] > remembered_max_) {
      const bool is_b1_favoured = remembered_max_ < capacity_ && size_[kB1] > size_[kB2];
      DropLast(is_b1_favoured || size_[kB2] == 0 ? kB1 : kB2);
    }
  }

  void DropLast(std::uint8_t ghost) {
    const std::uint32_t dropped = lists_.back(ghost);
    lists_.Unlink(dropped);
    --size_[ghost];
    Drop(dropped);
  }

  void Drop(std::uint32_t entry) {
    place_[entry] = kNowhere;
    departed_.Add(entry);
  }

  EntryLists lists_;
  std::vector<std::uint8_t> place_;
  std::array<std::uint32_t, kPlaces> size_{};
  std::uint32_t capacity_;
  std::uint32_t remembered_max_;
  double target_ = 0;                 // The paper's p.
  std::uint32_t incoming_ = kNoLink;  // Between Admit and OnInsert.
  PathGrowth growth_;
  DepartedEntries departed_;
};

}  // namespace kvferry::policy
