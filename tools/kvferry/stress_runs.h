// The runs of `kvferry stress`, and what they have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "commands.h"
#include "progress_bar.h"
#include "stress_report.h"

namespace kvferry::tool {

// Each prints a report and returns the exit code; what is wrong with its arguments, too.
int RunSim(const StressArguments& arguments);
int RunPowerCuts(const StressArguments& arguments);
int RunNthFault(const StressArguments& arguments);
int RunKills(const StressArguments& arguments);
int RunDamage(const StressArguments& arguments);

// The progress line, painted by the work itself: processes are forked beside it, so that there may
// be no thread.
class StressProgress {
 public:
  StressProgress(const StressArguments& arguments, std::string unit, std::uint64_t total);
  StressProgress(const StressProgress&) = delete;
  StressProgress& operator=(const StressProgress&) = delete;
  ~StressProgress();

  void Show(std::uint64_t done) const;

 private:
  bool is_shown_;
  ProgressOptions options_;
  Instant started_ = Clock::now();
};

// `has_volume`: it was enough for every kind of fault to have happened.
int PrintReport(const StressArguments& arguments, const StressReport& report, bool has_volume);

}  // namespace kvferry::tool
