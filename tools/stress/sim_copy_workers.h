// SimCopyWorkers: copy workers in virtual time, with seeded delays and a seeded order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/copy_work.h"

namespace kvferry::stress {

// The bytes move when the job is reaped, not before: whoever publishes earlier publishes rubbish.
//
// Thread-compatible.
class SimCopyWorkers final : public engine::CopyWorkers {
 public:
  // `skips_copies`: says of every copy that it was made, and makes none.
  SimCopyWorkers(const ClockSource& clock, Random random, bool skips_copies = false)
      : clock_(clock), random_(random), skips_copies_(skips_copies) {}

  void Submit(engine::CopyJob& job) override;
  std::size_t Reap(Instant now, std::span<engine::CopyJob*> done) override;
  std::size_t in_flight() const noexcept override { return waiting_.size(); }

  // When the next job is done; Instant::max() if none is under way.
  Instant NextEventTime() const;

 private:
  struct Waiting {
    Instant due;
    engine::CopyJob* job = nullptr;
  };

  const ClockSource& clock_;
  Random random_;
  bool skips_copies_;
  std::vector<Waiting> waiting_;
};

}  // namespace kvferry::stress
