// StressReport: what `kvferry stress` has counted, as JSON and as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvferry::tool {

// A number that something was counted to; a name of words, which JSON joins by underscores.
using NamedCount = std::pair<std::string, std::uint64_t>;

struct StressFailure {
  std::uint64_t seed = 0;
  NamedCount when;     // "operations", 180: what was reached when it showed.
  std::string text;    // What was wrong.
  std::string replay;  // The command that shows it again.
};

struct StressReport {
  std::string kind;  // "sim" and so on.
  std::uint64_t seed = 0;
  std::vector<NamedCount> counts;
  std::uint64_t violations = 0;
  std::string faults_title = "faults injected";
  std::vector<NamedCount> faults;  // Their names keep their spaces.
  std::optional<StressFailure> failure;
};

std::string ToJson(const StressReport& report);
// A line a count.
std::string ToText(const StressReport& report);
// "late, held": faults that were never injected; empty if each was.
std::string NeverInjected(const StressReport& report);

}  // namespace kvferry::tool
