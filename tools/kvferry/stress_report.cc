// One order of the counts for both forms.
#include "stress_report.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace kvferry::tool {
namespace {

std::string KeyOf(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::string LineOf(std::string name, std::uint64_t count) {
  constexpr std::size_t kNameColumns = 24;
  name.resize(std::max(name.size() + 1, kNameColumns), ' ');
  return name + std::to_string(count) + "\n";
}

}  // namespace

std::string ToJson(const StressReport& report) {
  nlohmann::ordered_json json;
  json["stress"] = KeyOf(report.kind);
  json["seed"] = report.seed;
  for (const auto& [name, count] : report.counts) {
    json[KeyOf(name)] = count;
  }
  json["violations"] = report.violations;
  json["faults"] = nlohmann::ordered_json::object();
  for (const auto& [name, count] : report.faults) {
    json["faults"][name] = count;
  }
  json["failing_seed"] = nullptr;
  if (report.failure) {
    json["failing_seed"] = report.failure->seed;
    json["failing_" + KeyOf(report.failure->when.first)] = report.failure->when.second;
    json["failure"] = report.failure->text;
    json["replay"] = report.failure->replay;
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string ToText(const StressReport& report) {
  std::string text;
  for (const auto& [name, count] : report.counts) {
    text += LineOf(name, count);
  }
  text += report.faults_title + "\n";
  for (const auto& [name, count] : report.faults) {
    text += LineOf("  " + name, count);
  }
  text += LineOf("violations", report.violations);
  if (report.failure) {
    const StressFailure& failure = *report.failure;
    text += "\nseed " + std::to_string(failure.seed) + " fails within " +
            std::to_string(failure.when.second) + " " + failure.when.first + ":\n  " +
            failure.text + (failure.text.ends_with('\n') ? "" : "\n") +
            "run it again: " + failure.replay + "\n";
  }
  return text;
}

std::string NeverInjected(const StressReport& report) {
  std::string names;
  for (const auto& [name, count] : report.faults) {
    if (count == 0) {
      names.append(names.empty() ? "" : ", ").append(name);
    }
  }
  return names;
}

}  // namespace kvferry::tool
