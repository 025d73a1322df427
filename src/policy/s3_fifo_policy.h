// S3FifoPolicy: a small queue on probation before a main queue, and a ghost queue beside them.
//
// J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi: FIFO Queues are All You Need for Cache Eviction,
// SOSP 2023, algorithm 1.
//
// S and M are FIFO queues of residents, G remembers what left S. Each resident counts its hits up
// to 3. c is the capacity, s = c / 10 rounded down and at least 1 the size of S, m = c - s the one
// of M.
//
//   hit x:      count(x) = min(3, count(x) + 1)
//   make room:  from S if |S| >= s or M is empty, else from M
//   from S:     t = last of S; if count(t) > 1: to the front of M, count(t) = 0; if now |M| > m:
//               from M; otherwise the next t
//               else t is the victim and goes to the front of G; if |G| > g: forget the last of G
//               S is empty: from M
//   from M:     t = last of M; if count(t) > 0: count(t) -= 1, to the front of M, and the next t
//               else t is the victim, without a trace
//   miss x:     make room if full; then if x is in G: from there to the front of M
//               else to the front of S; count(x) = 0
//
// g = m unless PolicyOptions::remembered_max says otherwise.
//
// Blocks that the owner takes out by itself leave no trace. Held blocks stay where they are and
// keep their count; if a queue has no others, the other queue is searched.
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
class S3FifoPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "s3-fifo";

  static constexpr std::uint32_t kSmallDivisor = 10;  // The paper's: most one-hit wonders go early.
  static constexpr std::uint8_t kCountMax = 3;        // Two bits.
  static constexpr std::uint8_t kPromoteAbove = 1;    // "Accessed more than once" while in S.

  explicit S3FifoPolicy(const PolicyOptions& options);

  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    growth_.OnRequest(access, path, leading_resident);
  }

  void OnHit(std::span<const EntryIndex> run) override {
    for (const EntryIndex entry : run) {
      std::uint8_t& state = state_[NumberOf(entry)];
      state = static_cast<std::uint8_t>(state + ((state & kCountMask) != kCountMax ? 1 : 0));
    }
  }

  bool Admit(EntryIndex /*entry*/) override { return true; }

  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    const std::uint32_t inserted = NumberOf(entry);
    departed_.Withdraw(inserted);
    const bool is_remembered = place(inserted) == kGhost;
    if (is_remembered) {
      lists_.Unlink(inserted);
      --size_[kGhost];
    }
    Place(inserted, is_remembered ? kMain : kSmall, growth_.Predecessor(entry, parent));
  }

  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    const bool starts_with_small = size_[kSmall] >= small_max_ || size_[kMain] == 0;
    std::uint32_t victim = starts_with_small ? TakeFromSmall(is_held) : TakeFromMain(is_held);
    if (victim == kNoLink) {
      victim = starts_with_small ? TakeFromMain(is_held) : TakeFromSmall(is_held);
    }
    return EntryIndex{victim};
  }

  void OnRemove(EntryIndex entry, RemoveReason reason) override {
    const std::uint32_t removed = NumberOf(entry);
    const std::uint8_t was_in = place(removed);
    lists_.Unlink(removed);
    --size_[was_in];
    if (was_in != kSmall || reason != RemoveReason::kEvicted) {
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
    return lists_.memory_bytes() + BytesOf(state_) + departed_.memory_bytes();
  }

 private:
  // Where an entry is; also the numbers of the lists.
  static constexpr std::uint8_t kNowhere = 0;
  static constexpr std::uint8_t kSmall = 1;
  static constexpr std::uint8_t kMain = 2;
  static constexpr std::uint8_t kGhost = 3;
  static constexpr std::uint8_t kPlaces = 4;
  // An entry's state is its place above two bits of count.
  static constexpr std::uint8_t kCountMask = 3;
  static constexpr std::uint8_t kPlaceShift = 2;

  std::uint8_t place(std::uint32_t entry) const {
    return static_cast<std::uint8_t>(state_[entry] >> kPlaceShift);
  }

  // With a count of zero.
  void Place(std::uint32_t entry, std::uint8_t target, EntryIndex predecessor) {
    const bool has_predecessor = predecessor != kNoEntry && place(NumberOf(predecessor)) == target;
    PushBehind(lists_, target, entry, has_predecessor ? NumberOf(predecessor) : kNoLink);
    state_[entry] = static_cast<std::uint8_t>(target << kPlaceShift);
    ++size_[target];
  }

  // Each step takes one from S or passes over a held one, so it ends.
  std::uint32_t TakeFromSmall(FunctionRef<bool(EntryIndex)> is_held) {
    std::uint32_t entry = lists_.back(kSmall);
    while (entry != lists_.sentinel(kSmall)) {
      const std::uint32_t next = lists_.previous(entry);
      if (!is_held(EntryIndex{entry})) {
        if ((state_[entry] & kCountMask) <= kPromoteAbove) {
          return entry;
        }
        lists_.Unlink(entry);
        --size_[kSmall];
        Place(entry, kMain, kNoEntry);
        if (size_[kMain] > main_max_) {
          return TakeFromMain(is_held);
        }
      }
      entry = next;
    }
    return kNoLink;
  }

  // Whoever goes to the front comes up again with a lower count, so it ends: with a victim, or past
  // the front when all of M are held.
  std::uint32_t TakeFromMain(FunctionRef<bool(EntryIndex)> is_held) {
    std::uint32_t entry = lists_.back(kMain);
    while (entry != lists_.sentinel(kMain)) {
      if (!is_held(EntryIndex{entry})) {
        if ((state_[entry] & kCountMask) == 0) {
          return entry;
        }
        --state_[entry];
        // Read before the move, and not before the list's only entry is back at the front.
        const std::uint32_t before = lists_.previous(entry);
        lists_.MoveChainToFront(kMain, entry, entry);
        entry = before != lists_.sentinel(kMain) ? before : entry;
        continue;
      }
      entry = lists_.previous(entry);
    }
    return kNoLink;
  }

  void Drop(std::uint32_t entry) {
    state_[entry] = kNowhere << kPlaceShift;
    departed_.Add(entry);
  }

  EntryLists lists_;
  std::vector<std::uint8_t> state_;
  std::array<std::uint32_t, kPlaces> size_{};
  std::uint32_t small_max_;
  std::uint32_t main_max_;
  std::uint32_t remembered_max_;
  PathGrowth growth_;
  DepartedEntries departed_;
};

}  // namespace kvferry::policy
