// `kvferry replay`: what caches of several sizes and policies would have hit on a trace.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "kvferry/version.h"

#include "base/bytes.h"
#include "commands.h"
#include "exit_code.h"
#include "output_path.h"
#include "progress_bar.h"
#include "read_input.h"
#include "replay/cell_runner.h"
#include "replay/html_page.h"
#include "replay/report.h"
#include "replay/result_checks.h"
#include "replay/trace_stats.h"
#include "replay/workload.h"
#include "replay_options.h"

#include <CLI/CLI.hpp>

namespace kvferry::tool {
namespace {

using replay::CellResult;
using replay::CellSpec;
using replay::ReplayReport;
using replay::Trace;

// Beside the program when installed, else where the build took it from.
std::string PageScriptPath() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path installed =
        program.parent_path().parent_path() / "share" / "kvferry" / "report_page.py";
    if (std::filesystem::exists(installed, error)) {
      return installed.string();
    }
  }
  return std::string(KVFERRY_SOURCE_SCRIPTS) + "/report_page.py";
}

int ListFormats() {
  std::string text;
  for (const replay::TraceFormat& format : replay::TraceFormats()) {
    std::string name(format.name);
    name.resize(std::max<std::size_t>(name.size() + 2, 12), ' ');
    text.append(name).append(format.description).append(1, '\n');
  }
  return PrintOutput(text);
}

Result<Trace> ReadOrGenerate(const ReplayOptions& options, const ReplayArguments& arguments) {
  if (!options.read.paths.empty()) {
    return ReadInput(options.read, arguments.is_quiet);
  }
  replay::WorkloadOptions workload;
  workload.seed = arguments.seed;
  workload.selection = options.read.selection;
  workload.memory_max_bytes = options.read.memory_max_bytes;
  if (arguments.block_tokens > 0) {
    workload.block_tokens = arguments.block_tokens;
  }
  return replay::GenerateWorkload(workload);
}

// Requests before the end of the warm-up: by number or by time, whichever is later.
std::size_t WarmupRequests(const Trace& trace, const ReplayOptions& options) {
  const std::span<const replay::TraceRequest> requests = trace.requests();
  std::size_t count = std::min<std::uint64_t>(options.warmup_requests, requests.size());
  if (options.warmup_ms > 0 && !requests.empty()) {
    const std::int64_t end_ms = requests.front().time_ms + options.warmup_ms;
    while (count < requests.size() && requests[count].time_ms < end_ms) {
      ++count;
    }
  }
  return count;
}

Result<std::vector<CellSpec>> MakeCells(const Trace& trace, const ReplayOptions& options) {
  const auto block_bytes =
      static_cast<std::uint64_t>(options.bytes_per_token * trace.origin().block_tokens);
  std::vector<CellSpec> cells;
  for (const replay::Capacity& capacity : options.capacities) {
    KVFERRY_ASSIGN_OR_RETURN(
        const std::uint32_t blocks,
        replay::CapacityBlocks(capacity, trace.distinct_blocks(), block_bytes));
    for (const std::string& policy : options.policies) {
      const bool is_known = std::any_of(cells.begin(), cells.end(), [&](const CellSpec& cell) {
        return cell.policy == policy && cell.capacity_blocks == blocks;
      });
      if (!is_known) {
        cells.push_back({.policy = policy, .capacity_blocks = blocks});
      }
    }
  }
  return cells;
}

// As many cells at a time as --memory allows; kResourceExhausted if not even one fits.
Result<int> JobsWithinMemory(const Trace& trace, std::size_t cells, const ReplayOptions& options) {
  const std::uint64_t cell_bytes = replay::CellMemoryBytes(trace, options.hit_rule);
  const std::uint64_t trace_bytes = trace.memory_bytes();
  const std::uint64_t limit = options.read.memory_max_bytes;
  const auto wanted = std::min<std::uint64_t>(static_cast<std::uint64_t>(options.jobs),
                                              std::max<std::size_t>(cells, 1));
  const std::uint64_t room = limit > trace_bytes ? (limit - trace_bytes) / cell_bytes : 0;
  if (room == 0) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "the tables need " + FormatBytes(trace_bytes + cell_bytes) + " (trace " +
                             FormatBytes(trace_bytes) + ", a cell " + FormatBytes(cell_bytes) +
                             "), more than --memory " + FormatBytes(limit) +
                             ": raise it, or read less with --limit");
  }
  return static_cast<int>(std::min(wanted, room));
}

Result<std::vector<CellResult>> RunGrid(const Trace& trace,
                                        std::span<const CellSpec> cells,
                                        replay::CellRunOptions run,
                                        bool is_quiet) {
  ProgressBar bar({.label = "replaying " + std::to_string(cells.size()) + " cells",
                   .unit = "references",
                   .total = trace.block_refs() * cells.size(),
                   .is_shown = !is_quiet && IsProgressTerminal()});
  run.progress_refs = &bar.done();
  return replay::RunCells(trace, cells, run);
}

// Everything from the trace to a checked report.
Result<ReplayReport> Replay(const ReplayArguments& arguments, const ReplayOptions& options) {
  KVFERRY_ASSIGN_OR_RETURN(const Trace trace, ReadOrGenerate(options, arguments));
  if (trace.requests().empty()) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "no request is left to replay: widen --from, --to or --limit");
  }
  const std::size_t warmup_requests = WarmupRequests(trace, options);
  if (warmup_requests == trace.requests().size()) {
    return Status::Error(StatusCode::kInvalidArgument, "--warmup '" + arguments.warmup +
                                                           "' leaves none of the " +
                                                           std::to_string(trace.requests().size()) +
                                                           " requests to count: shorten it");
  }
  std::vector<replay::CellOptions::Output> outputs;
  if (arguments.stores_output && trace.origin().has_blocks) {
    outputs = replay::FindStoredOutputs(trace);
  }
  ReplayReport report;
  report.version = kVersion;
  report.origin = trace.origin();
  report.stats = replay::ComputeTraceStats(
      trace,
      {.hit_rule = options.hit_rule, .warmup_requests = warmup_requests, .outputs = outputs});
  report.seed = arguments.seed;
  report.hit_rule = options.hit_rule;
  report.warmup_requests = warmup_requests;
  report.stores_outputs = arguments.stores_output;
  report.options = EchoOptions(arguments);
  report.model = arguments.model;
  report.model_notes = options.model_notes;
  report.bytes_per_token = options.bytes_per_token;
  report.prefill_tokens_per_second = arguments.prefill_rate;
  if (!trace.origin().has_blocks) {
    return report;
  }
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<CellSpec> cells, MakeCells(trace, options));
  KVFERRY_ASSIGN_OR_RETURN(const int jobs, JobsWithinMemory(trace, cells.size(), options));
  const replay::CellRunOptions run{.hit_rule = options.hit_rule,
                                   .warmup_requests = warmup_requests,
                                   .outputs = outputs,
                                   .seed = arguments.seed,
                                   .jobs = jobs};
  KVFERRY_ASSIGN_OR_RETURN(report.results, RunGrid(trace, cells, run, arguments.is_quiet));
  const replay::CheckOptions checks{.hit_rule = options.hit_rule,
                                    .warmup_requests = warmup_requests,
                                    .stores_outputs = arguments.stores_output};
  KVFERRY_RETURN_IF_ERROR(replay::CheckResults(trace, report.stats, report.results, checks));
  report.checks = replay::DescribeChecks(trace, report.results, checks);
  return report;
}

// Whether the page and standard output can be written and are none of the inputs.
Status CheckOutputs(const ReplayArguments& arguments, const std::string& script) {
  std::vector<std::string> inputs = arguments.traces;
  if (!arguments.model.empty()) {
    inputs.push_back(arguments.model);
  }
  KVFERRY_RETURN_IF_ERROR(CheckStandardOutput(inputs));
  if (arguments.html_path.empty()) {
    return Status::Ok();
  }
  if (arguments.html_path == "-") {
    return Status::Error(StatusCode::kInvalidArgument,
                         "--html '-': the page goes to a file, since the numbers go to standard "
                         "output: name one (--html page.html)");
  }
  KVFERRY_RETURN_IF_ERROR(CheckOutput("--html", arguments.html_path, inputs));
  return replay::CheckHtmlPossible(script).WithContext("--html");
}

int RunReplay(const ReplayArguments& arguments) {
  if (arguments.lists_formats) {
    return ListFormats();
  }
  const Result<ReplayOptions> options = CheckReplayArguments(arguments);
  if (!options.has_value()) {
    return ReportStatus(options.error());
  }
  const std::string script = PageScriptPath();
  if (const Status outputs = CheckOutputs(arguments, script); !outputs.ok()) {
    return ReportStatus(outputs);
  }
  const Result<ReplayReport> report = Replay(arguments, *options);
  if (!report.has_value()) {
    return ReportStatus(report.error());
  }
  if (!arguments.html_path.empty()) {
    const Status status =
        replay::WriteHtmlPage(replay::ToJson(*report), script, arguments.html_path);
    if (!status.ok()) {
      return ReportStatus(status.WithContext("--html"));
    }
  }
  if (arguments.prints_json) {
    return PrintOutput(replay::ToJson(*report));
  }
  if (!arguments.prints_csv) {
    return PrintOutput(replay::ToText(*report));
  }
  if (!arguments.is_quiet) {
    PrintNotes(replay::ReportNotes(*report));
  }
  return PrintOutput(replay::ToCsv(*report));
}

}  // namespace

void AddReplayCommand(CLI::App& app, ReplayArguments& arguments, int& exit_code) {
  CLI::App* replay = app.add_subcommand(
      "replay", "Replay a trace through caches of several sizes and policies: what would hit");
  replay->footer(
      "Examples:\n"
      "  kvferry replay --html report.html\n"
      "  kvferry replay -t conversation_trace.jsonl -p all -c 1%,5%,10%\n"
      "  kvferry replay -t trace.jsonl.zst -c 64GiB,256GiB --model config.json --json\n"
      "docs/replay.md explains every number.");
  AddReplayOptions(*replay, arguments);
  replay->callback([&arguments, &exit_code] { exit_code = RunReplay(arguments); });
}

}  // namespace kvferry::tool
