// What LIRS does on a miss and when a block leaves.
#include "policy/lirs_policy.h"

#include <algorithm>
#include <limits>

namespace kvferry::policy {
namespace {

std::uint32_t RememberedMax(const PolicyOptions& options, std::uint32_t multiple) {
  if (options.remembered_max != 0) {
    return options.remembered_max;
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(
      std::uint64_t{options.residents_max} * multiple, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

LirsPolicy::LirsPolicy(const PolicyOptions& options)
    : stack_(options.entries_max, 1),
      queue_(options.entries_max, kQueueLists),
      state_(options.entries_max, State::kNowhere),
      lir_max_(options.residents_max - std::max(1U, options.residents_max / kHirDivisor)),
      remembered_max_(RememberedMax(options, kRememberedMultiple)),
      departed_(options) {}

void LirsPolicy::OnInsert(EntryIndex entry, EntryIndex parent) {
  const std::uint32_t inserted = NumberOf(entry);
  departed_.Withdraw(inserted);
  const bool is_remembered = state_[inserted] == State::kRemembered;
  if (is_remembered) {
    stack_.Unlink(inserted);
    queue_.Unlink(inserted);
    --ghost_count_;
  }
  const EntryIndex before = growth_.Predecessor(entry, parent);
  const bool follows_in_stack = before != kNoEntry && is_in_stack(NumberOf(before));
  const std::uint32_t stack_before = follows_in_stack ? NumberOf(before) : kNoLink;
  if (is_remembered || lir_count_ < lir_max_) {
    Grow(inserted, stack_before);
    return;
  }
  const bool follows_in_queue = before != kNoEntry && is_in_queue(NumberOf(before));
  PushBehind(queue_, kQueue, inserted, follows_in_queue ? NumberOf(before) : kNoLink);
  PushBehind(stack_, kStack, inserted, stack_before);
  state_[inserted] = State::kHirInStack;
  Prune();
}

void LirsPolicy::OnRemove(EntryIndex entry, RemoveReason reason) {
  const std::uint32_t removed = NumberOf(entry);
  const State was = state_[removed];
  if (was != State::kLir) {
    queue_.Unlink(removed);
  }
  if (was == State::kHirInStack && reason == RemoveReason::kEvicted) {
    state_[removed] = State::kRemembered;
    queue_.PushFront(kGhosts, removed);
    if (++ghost_count_ > remembered_max_) {
      const std::uint32_t dropped = queue_.back(kGhosts);
      queue_.Unlink(dropped);
      stack_.Unlink(dropped);
      --ghost_count_;
      Drop(dropped);
    }
    return;
  }
  if (was != State::kHirOutOfStack) {
    stack_.Unlink(removed);
  }
  Drop(removed);
  if (was == State::kLir) {
    --lir_count_;
    Prune();
  }
}

EntryIndex LirsPolicy::LowestLirNotHeld(FunctionRef<bool(EntryIndex)> is_held) const {
  std::uint32_t entry = stack_.back(kStack);
  while (entry != stack_.sentinel(kStack)) {
    if (state_[entry] == State::kLir && !is_held(EntryIndex{entry})) {
      return EntryIndex{entry};
    }
    entry = stack_.previous(entry);
  }
  return kNoEntry;
}

}  // namespace kvferry::policy
