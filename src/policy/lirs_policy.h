// LirsPolicy: ranks blocks by the time between their last two touches, not by the last one alone.
//
// S. Jiang, X. Zhang: LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy to
// Improve Buffer Cache Performance, SIGMETRICS 2002.
//
// A resident is LIR (seen again soon enough; stays) or HIR (on probation). The stack S holds all
// LIR blocks and, more recent than the oldest LIR block, HIR blocks, also some that were evicted.
// The queue Q holds the resident HIR blocks. c is the capacity, h = c / 100 rounded down and at
// least 1 the room for resident HIR blocks, l = c - h that for LIR blocks.
//
//   prune:        while the bottom of S is not LIR: take it out of S (an evicted one is forgotten)
//   grow x:       x becomes LIR at the top of S; if there are more than l: the bottom of S becomes
//                 HIR, leaves S and goes to the end of Q; prune
//   hit LIR x:    x to the top of S; prune
//   hit HIR x:    in S: x leaves Q; grow x.  Not in S: x to the top of S and to the end of Q
//   make room:    evict the front of Q; if it is in S it is remembered there; if more than g are:
//                 forget the one that was evicted first
//   miss x:       make room if full; if fewer than l blocks are LIR, or x is remembered: grow x;
//                 else x becomes HIR, to the top of S (if S has a LIR block) and the end of Q
//
// The paper's S has no bound. Here g = 2 c unless PolicyOptions::remembered_max says otherwise: a
// block that stays away for longer than two turnovers of the cache would rank low anyway.
//
// Blocks that the owner takes out by itself leave no trace. Held blocks are passed over in Q; when
// all of Q are held, the LIR block lowest in S that is not held goes.
#pragma once

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
class LirsPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "lirs";

  static constexpr std::uint32_t kHirDivisor = 100;        // The paper's 1 %.
  static constexpr std::uint32_t kRememberedMultiple = 2;  // Of the capacity.

  explicit LirsPolicy(const PolicyOptions& options);

  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    growth_.OnRequest(access, path, leading_resident);
  }

  void OnHit(std::span<const EntryIndex> run) override {
    for (std::size_t end = run.size(); end > 0;) {
      const std::uint32_t last = NumberOf(run[end - 1]);
      if (state_[last] == State::kLir) {
        const std::size_t begin = LirChainBegin(run, end);
        stack_.MoveChainToFront(kStack, NumberOf(run[begin]), last);
        Prune();
        end = begin;
        continue;
      }
      --end;
      if (state_[last] == State::kHirInStack) {
        queue_.Unlink(last);
        stack_.Unlink(last);
        Grow(last, kNoLink);
        continue;
      }
      stack_.PushFront(kStack, last);
      state_[last] = State::kHirInStack;
      queue_.MoveChainToFront(kQueue, last, last);
      Prune();
    }
  }

  bool Admit(EntryIndex /*entry*/) override { return true; }
  void OnInsert(EntryIndex entry, EntryIndex parent) override;

  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    const std::uint32_t victim = LastNotHeld(queue_, kQueue, is_held);
    return victim != kNoLink ? EntryIndex{victim} : LowestLirNotHeld(is_held);
  }

  void OnRemove(EntryIndex entry, RemoveReason reason) override;

  std::size_t Forget(std::span<EntryIndex> freed) override { return departed_.Take(freed); }
  std::size_t memory_bytes() const noexcept override {
    return stack_.memory_bytes() + queue_.memory_bytes() + BytesOf(state_) +
           departed_.memory_bytes();
  }

 private:
  enum class State : std::uint8_t { kNowhere, kLir, kHirInStack, kHirOutOfStack, kRemembered };

  static constexpr std::uint32_t kStack = 0;   // The only list of stack_; its front is the top.
  static constexpr std::uint32_t kQueue = 0;   // Of queue_: resident HIR, the end of Q in front.
  static constexpr std::uint32_t kGhosts = 1;  // Of queue_: remembered ones, the newest in front.
  static constexpr std::uint32_t kQueueLists = 2;

  bool is_in_stack(std::uint32_t entry) const {
    return state_[entry] == State::kLir || state_[entry] == State::kHirInStack;
  }
  bool is_in_queue(std::uint32_t entry) const {
    return state_[entry] == State::kHirInStack || state_[entry] == State::kHirOutOfStack;
  }

  // Where the longest chain of LIR blocks in the stack that ends before run[end] begins.
  std::size_t LirChainBegin(std::span<const EntryIndex> run, std::size_t end) const {
    std::size_t begin = end - 1;
    while (begin > 0 && state_[NumberOf(run[begin - 1])] == State::kLir &&
           stack_.next(NumberOf(run[begin - 1])) == NumberOf(run[begin])) {
      --begin;
    }
    return begin;
  }

  // `entry` is in neither list.
  void Grow(std::uint32_t entry, std::uint32_t predecessor) {
    PushBehind(stack_, kStack, entry, predecessor);
    state_[entry] = State::kLir;
    if (++lir_count_ > lir_max_) {
      const std::uint32_t demoted = stack_.back(kStack);
      stack_.Unlink(demoted);
      state_[demoted] = State::kHirOutOfStack;
      queue_.PushFront(kQueue, demoted);
      --lir_count_;
    }
    Prune();
  }

  void Prune() {
    while (!stack_.is_empty(kStack) && state_[stack_.back(kStack)] != State::kLir)
      [[unlikely]] {
        PruneBottom();
      }
  }

  void PruneBottom() {
    const std::uint32_t bottom = stack_.back(kStack);
    stack_.Unlink(bottom);
    if (state_[bottom] == State::kHirInStack) {
      state_[bottom] = State::kHirOutOfStack;
      return;
    }
    queue_.Unlink(bottom);
    --ghost_count_;
    Drop(bottom);
  }

  EntryIndex LowestLirNotHeld(FunctionRef<bool(EntryIndex)> is_held) const;

  void Drop(std::uint32_t entry) {
    state_[entry] = State::kNowhere;
    departed_.Add(entry);
  }

  EntryLists stack_;
  EntryLists queue_;
  std::vector<State> state_;
  std::uint32_t lir_max_;
  std::uint32_t remembered_max_;
  std::uint32_t lir_count_ = 0;
  std::uint32_t ghost_count_ = 0;
  PathGrowth growth_;
  DepartedEntries departed_;
};

}  // namespace kvferry::policy
