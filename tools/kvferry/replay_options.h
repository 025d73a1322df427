// ReplayOptions: what `kvferry replay` was asked for, read and checked before any work starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "replay/cache_cell.h"
#include "replay/capacity.h"
#include "replay/read_trace.h"
#include "replay/report.h"

// Declared only: the library's header takes seconds to compile.
namespace CLI {  // NOLINT(readability-identifier-naming): the library names it.
class App;
class Option;
}  // namespace CLI

namespace kvferry::tool {

// As written on the command line.
struct ReplayArguments {
  std::string mode = "cache";
  std::vector<std::string> traces;
  std::string format;
  std::uint32_t block_tokens = 0;
  bool shares_ids = false;
  std::string session_gap = "90s";
  std::string from;
  std::string to;
  std::uint64_t limit = 0;  // 0: none.
  std::uint64_t skip_bad_lines = 0;
  std::string memory;
  std::vector<std::string> policies = {"leaf-lru", "auto", "min"};
  std::vector<std::string> capacities = {"1%", "2%", "5%", "10%", "25%", "50%"};
  std::string hit_rule = "prefix";
  std::string warmup = "0";
  bool stores_output = false;
  std::string model;
  double bytes_per_token = 0;
  double prefill_rate = 0;  // Tokens a second; 0: unknown.
  bool prints_json = false;
  bool prints_csv = false;
  std::string html_path;
  bool is_quiet = false;
  bool lists_formats = false;
  std::uint64_t seed = 1;
  int jobs = 0;  // 0: one a core.
};

// The same, understood.
struct ReplayOptions {
  replay::ReadOptions read;  // Without paths: the generated workload.
  std::vector<std::string> policies;
  std::vector<replay::Capacity> capacities;
  replay::HitRule hit_rule = replay::HitRule::kPrefix;
  std::uint64_t warmup_requests = 0;
  std::int64_t warmup_ms = 0;            // The later of the two ends the warm-up.
  double bytes_per_token = 0;            // From the model or as given; 0: unknown.
  std::vector<std::string> model_notes;  // What those bytes leave out or count too often.
  int jobs = 1;
};

// Adds --seed to `command`, which owns the option.
CLI::Option* AddSeedOption(CLI::App& command, ReplayArguments& arguments, const std::string& help);

// Adds how traces are read (format, block size, selection, memory) to `command`.
void AddTraceOptions(CLI::App& command, ReplayArguments& arguments);

// Adds every option with its help to `command`; values land in `arguments`.
void AddReplayOptions(CLI::App& command, ReplayArguments& arguments);

// The options as a report repeats them: every one that changes a number, with its value.
std::vector<replay::ReportOption> EchoOptions(const ReplayArguments& arguments);

// How the traces are read; the part of CheckReplayArguments that every command with traces needs.
Result<replay::ReadOptions> CheckTraceArguments(const ReplayArguments& arguments);

// kInvalidArgument naming the option, the value, the reason and the remedy.
Result<ReplayOptions> CheckReplayArguments(const ReplayArguments& arguments);

}  // namespace kvferry::tool
