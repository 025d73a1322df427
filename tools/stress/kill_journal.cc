// Steps in shared memory, and what each does to the model.
#include "stress/kill_journal.h"

#include <algorithm>

namespace kvferry::stress {

void Apply(const KillStep& step, BlockModel& model) {
  switch (step.kind) {
    case KillStep::Kind::kBeginPut:
      model.BeginPut(step.key);
      break;
    case KillStep::Kind::kEndPut:
      model.EndPut(step.key);
      break;
    case KillStep::Kind::kBeginErase:
      model.BeginErase(step.key);
      break;
    case KillStep::Kind::kEndErase:
      model.EndErase(step.key);
      break;
    case KillStep::Kind::kGiveUpErase:
      model.GiveUpErase(step.key);
      break;
    case KillStep::Kind::kDisturb:
      model.Disturb(step.key);
      break;
    case KillStep::Kind::kEndPersist:
      model.EndPersist(step.key, step.value);
      break;
    case KillStep::Kind::kEraseNamespace:
      model.EraseNamespace(step.key);
      break;
  }
}

bool KillJournal::Append(const KillStep& step) noexcept {
  const std::size_t count = step_count_.load(std::memory_order_relaxed);
  if (count == kStepsMax) {
    return false;
  }
  steps_[count] = step;
  step_count_.store(count + 1, std::memory_order_release);
  return true;
}

void KillJournal::Replay(BlockModel& model) const {
  const std::size_t count = step_count();
  for (std::size_t i = 0; i < count; ++i) {
    Apply(steps_[i], model);
  }
}

void KillJournal::NoteViolation(const std::string& text) noexcept {
  if (violations.fetch_add(1) == 0) {
    std::copy_n(text.begin(), std::min(text.size(), kTextMax - 1), text_.begin());
  }
}

}  // namespace kvferry::stress
