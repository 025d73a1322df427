// Progress and the exit code, the same for every run.
#include "stress_runs.h"

#include <cstdio>
#include <utility>

#include "exit_code.h"

namespace kvferry::tool {

StressProgress::StressProgress(const StressArguments& arguments,
                               std::string unit,
                               std::uint64_t total)
    : is_shown_(!arguments.is_quiet && IsProgressTerminal()),
      options_({"running", std::move(unit), total, true}) {}

StressProgress::~StressProgress() {
  if (is_shown_) {
    std::fputs("\r\033[K", stderr);
  }
}

void StressProgress::Show(std::uint64_t done) const {
  if (is_shown_) {
    const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
    std::fprintf(stderr, "\r\033[K%s", ProgressLine(options_, done, elapsed).c_str());
  }
}

int PrintReport(const StressArguments& arguments, const StressReport& report, bool has_volume) {
  const int printed = PrintOutput(arguments.is_json ? ToJson(report) : ToText(report));
  if (printed != kExitOk || report.violations > 0) {
    return kExitFailure;
  }
  const std::string missing = NeverInjected(report);
  if (has_volume && !missing.empty()) {
    std::fprintf(stderr, "kvferry: never injected: %s; run more\n", missing.c_str());
    return kExitFailure;
  }
  return kExitOk;
}

}  // namespace kvferry::tool
