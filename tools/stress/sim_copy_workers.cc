// Jobs with a due time, done when they are taken back.
#include "stress/sim_copy_workers.h"

#include <algorithm>

namespace kvferry::stress {
namespace {

// A worker is mostly quick and sometimes put aside by the system.
constexpr std::uint64_t kDelayUsMax = 200;
constexpr std::uint64_t kLongDelayUsMax = 20'000;
constexpr double kLongChance = 1.0 / 64;

}  // namespace

void SimCopyWorkers::Submit(engine::CopyJob& job) {
  const std::uint64_t most = random_.Chance(kLongChance) ? kLongDelayUsMax : kDelayUsMax;
  waiting_.push_back({clock_.Now() + std::chrono::microseconds(random_.Below(most)), &job});
}

std::size_t SimCopyWorkers::Reap(Instant now, std::span<engine::CopyJob*> done) {
  std::size_t count = 0;
  while (count < done.size()) {
    const auto next =
        std::min_element(waiting_.begin(), waiting_.end(),
                         [](const Waiting& a, const Waiting& b) { return a.due < b.due; });
    if (next == waiting_.end() || next->due > now) {
      break;
    }
    if (skips_copies_) {
      for (engine::CopyPiece& piece : next->job->pieces) {
        piece.is_intact = true;
      }
    } else {
      engine::RunCopyJob(*next->job);
    }
    done[count++] = next->job;
    *next = waiting_.back();
    waiting_.pop_back();
  }
  return count;
}

Instant SimCopyWorkers::NextEventTime() const {
  Instant next = Instant::max();
  for (const Waiting& waiting : waiting_) {
    next = std::min(next, waiting.due);
  }
  return next;
}

}  // namespace kvferry::stress
