// `kvferry trace convert`: any readable trace as Mooncake JSONL.
#include <cerrno>
#include <cstdio>
#include <string>

#include "base/file.h"
#include "commands.h"
#include "exit_code.h"
#include "output_path.h"
#include "read_input.h"
#include "replay/read_trace.h"
#include "replay/write_mooncake.h"
#include "replay_options.h"

#include <CLI/CLI.hpp>

namespace kvferry::tool {
namespace {

Status CheckConvertOutput(const ConvertArguments& arguments) {
  return arguments.output == "-"
             ? CheckStandardOutput(arguments.input.traces)
             : CheckOutput("--output", arguments.output, arguments.input.traces);
}

Status WriteTraceFile(const replay::Trace& trace, const std::string& path) {
  KVFERRY_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  KVFERRY_RETURN_IF_ERROR(replay::WriteMooncake(trace, file.stream()).WithContext(path));
  return file.Commit();
}

int RunConvert(const ConvertArguments& arguments) {
  if (arguments.input.traces.empty()) {
    return ReportStatus(
        Status::Error(StatusCode::kInvalidArgument,
                      "trace convert needs a trace: kvferry trace convert FILE -o OUT"));
  }
  const Result<replay::ReadOptions> options = CheckTraceArguments(arguments.input);
  if (!options.has_value()) {
    return ReportStatus(options.error());
  }
  if (const Status output = CheckConvertOutput(arguments); !output.ok()) {
    return ReportStatus(output);
  }
  const Result<replay::Trace> trace = ReadInput(*options, arguments.input.is_quiet);
  if (!trace.has_value()) {
    return ReportStatus(trace.error());
  }
  const Status status = arguments.output == "-" ? replay::WriteMooncake(*trace, stdout)
                                                : WriteTraceFile(*trace, arguments.output);
  if (status.native_code() == EPIPE) {
    return kExitOk;
  }
  if (status.ok() && !arguments.input.is_quiet) {
    PrintNotes(trace->origin().notes);
  }
  return ReportStatus(status);
}

}  // namespace

void AddTraceCommand(CLI::App& app, ConvertArguments& arguments, int& exit_code) {
  CLI::App* trace = app.add_subcommand("trace", "Work on trace files");
  trace->require_subcommand(1);
  CLI::App* convert = trace->add_subcommand(
      "convert", "Write any readable trace as Mooncake JSONL (timestamp, lengths, hash_ids)");
  convert
      ->add_option(
          "trace,-t,--trace", arguments.input.traces,
          "Trace file, folder of session JSON, or - for standard input; several are merged "
          "by time")
      ->type_name("FILE");
  convert
      ->add_option("-o,--output", arguments.output,
                   "Where to write, whole or not at all; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  AddTraceOptions(*convert, arguments.input);
  AddSeedOption(*convert, arguments.input, "Seed of drawn session starts");
  convert->add_flag("-q,--quiet", arguments.input.is_quiet,
                    "No progress bar and no notes on stderr");
  convert->footer(
      "kvferry replay --list-formats names the formats; docs/trace-formats.md describes them.");
  convert->callback([&arguments, &exit_code] { exit_code = RunConvert(arguments); });
}

}  // namespace kvferry::tool
