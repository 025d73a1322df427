// What each reference says about the two caches, and the switch.
#include "policy/adaptive_policy.h"

#include <algorithm>
#include <utility>

namespace kvferry::policy {
namespace {

constexpr std::uint64_t kWindowRefsMin = 1024;
constexpr std::uint64_t kWindowPerResident = 2;
constexpr std::int64_t kHysteresis = 64;  // The part of a window that the gain must exceed.

}  // namespace

AdaptivePolicy::AdaptivePolicy(std::unique_ptr<EvictionPolicy> inner, const PolicyOptions& options)
    : admission_(std::move(inner), options),
      readings_(options.entries_max),
      is_seen_twice_(options.entries_max),
      residents_max_(options.residents_max),
      window_refs_(std::max(kWindowRefsMin, kWindowPerResident * options.residents_max)) {
  admission_.set_is_open(true);
}

void AdaptivePolicy::OnRequest(const Access& access,
                               std::span<const EntryIndex> path,
                               std::uint32_t leading_resident) {
  admission_.set_is_open(!is_on_);
  admission_.OnRequest(access, path, leading_resident);
}

void AdaptivePolicy::OnHit(std::span<const EntryIndex> run) {
  for (std::size_t i = run.size(); i-- > 0;) {
    Score(NumberOf(run[i]), true);
  }
  admission_.OnHit(run);
}

bool AdaptivePolicy::Admit(EntryIndex entry) {
  Score(NumberOf(entry), admission_.has_seen(entry));
  return admission_.Admit(entry);
}

void AdaptivePolicy::OnInsert(EntryIndex entry, EntryIndex parent) {
  admission_.OnInsert(entry, parent);
}

EntryIndex AdaptivePolicy::TakeVictim(FunctionRef<bool(EntryIndex)> is_held) {
  return admission_.TakeVictim(is_held);
}

void AdaptivePolicy::OnRemove(EntryIndex entry, RemoveReason reason) {
  admission_.OnRemove(entry, reason);
}

std::size_t AdaptivePolicy::Forget(std::span<EntryIndex> freed) {
  return admission_.Forget(freed);
}

void AdaptivePolicy::Score(std::uint32_t entry, bool is_known) {
  Reading& reading = readings_[entry];
  const bool is_plain_hit = is_known && clock_.plain - reading.plain < residents_max_;
  const bool is_second_sight_hit = is_known && is_seen_twice_[entry] != 0 &&
                                   clock_.second_sight - reading.second_sight < residents_max_;
  if (!is_plain_hit) {
    ++clock_.plain;
  }
  if (is_known && !is_second_sight_hit) {
    ++clock_.second_sight;
  }
  is_seen_twice_[entry] = is_known ? 1 : 0;
  reading = clock_;
  gain_ += (is_second_sight_hit ? 1 : 0) - (is_plain_hit ? 1 : 0);
  if (++refs_ == window_refs_) {
    EndWindow();
  }
}

void AdaptivePolicy::EndWindow() {
  decayed_gain_ = decayed_gain_ / 2 + gain_;
  const std::int64_t margin = static_cast<std::int64_t>(window_refs_) / kHysteresis;
  if (decayed_gain_ > margin) {
    is_on_ = true;
  } else if (decayed_gain_ < -margin) {
    is_on_ = false;
  }
  refs_ = 0;
  gain_ = 0;
}

}  // namespace kvferry::policy
