// The memory of what was seen, and when a number is nobody's any more.
#include "policy/second_sight_policy.h"

#include <algorithm>
#include <utility>

namespace kvferry::policy {
namespace {

constexpr std::uint64_t kRememberedPerResident = 4;

std::uint32_t SeenMax(const PolicyOptions& options) {
  const std::uint64_t wanted = options.remembered_max != 0
                                   ? options.remembered_max
                                   : kRememberedPerResident * options.residents_max;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, options.entries_max));
}

}  // namespace

SecondSightPolicy::SecondSightPolicy(std::unique_ptr<EvictionPolicy> inner,
                                     const PolicyOptions& options)
    : inner_(std::move(inner)),
      seen_(options.entries_max, 1),
      state_(options.entries_max),
      departed_(options),
      seen_max_(SeenMax(options)) {}

void SecondSightPolicy::OnRequest(const Access& access,
                                  std::span<const EntryIndex> path,
                                  std::uint32_t leading_resident) {
  inner_->OnRequest(access, path, leading_resident);
}

void SecondSightPolicy::OnHit(std::span<const EntryIndex> run) {
  inner_->OnHit(run);
}

bool SecondSightPolicy::Admit(EntryIndex entry) {
  if (!is_open_ && !has_seen(entry)) {
    Remember(NumberOf(entry));
    return false;
  }
  if (!inner_->Admit(entry)) {
    state_[NumberOf(entry)] |= kWithInner;  // It refused, so it reports.
    return false;
  }
  return true;
}

void SecondSightPolicy::OnInsert(EntryIndex entry, EntryIndex parent) {
  if (has_seen(entry)) {
    seen_.Unlink(NumberOf(entry));
    --seen_count_;
  }
  departed_.Withdraw(NumberOf(entry));
  state_[NumberOf(entry)] = kResident | kWithInner;
  inner_->OnInsert(entry, parent);
}

EntryIndex SecondSightPolicy::TakeVictim(FunctionRef<bool(EntryIndex)> is_held) {
  return inner_->TakeVictim(is_held);
}

void SecondSightPolicy::OnRemove(EntryIndex entry, RemoveReason reason) {
  state_[NumberOf(entry)] &= static_cast<std::uint8_t>(~kResident);
  inner_->OnRemove(entry, reason);
  if (reason == RemoveReason::kEvicted) {
    Remember(NumberOf(entry));
  }
}

std::size_t SecondSightPolicy::Forget(std::span<EntryIndex> freed) {
  for (std::size_t count = inner_->Forget(freed); count > 0; count = inner_->Forget(freed)) {
    for (const EntryIndex entry : freed.first(count)) {
      state_[NumberOf(entry)] &= static_cast<std::uint8_t>(~kWithInner);
      DropIfUnknown(NumberOf(entry));
    }
  }
  return departed_.Take(freed);
}

void SecondSightPolicy::Remember(std::uint32_t entry) {
  departed_.Withdraw(entry);
  seen_.PushBack(0, entry);
  if (++seen_count_ > seen_max_) {
    const std::uint32_t oldest = seen_.front(0);
    seen_.Unlink(oldest);
    --seen_count_;
    DropIfUnknown(oldest);
  }
}

void SecondSightPolicy::DropIfUnknown(std::uint32_t entry) {
  if (state_[entry] == 0 && !seen_.is_linked(entry)) {
    departed_.Add(entry);
  }
}

}  // namespace kvferry::policy
