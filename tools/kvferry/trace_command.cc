// `kvferry trace convert`: any readable trace as Mooncake JSONL.
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/bytes.h"
#include "commands.h"
#include "exit_code.h"
#include "read_input.h"
#include "replay/capacity.h"
#include "replay/read_trace.h"
#include "replay/write_mooncake.h"
#include "replay_options.h"

namespace kvferry::tool {
namespace {

// Writes the trace to `path` whole or not at all: a name beside it holds the lines until the last
// is there. What is no regular file (a pipe, /dev/null) is written to directly.
Status WriteTraceFile(const replay::Trace& trace, const std::string& path) {
  std::error_code error;
  const bool is_special =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string written_path = is_special ? path : path + ".partial";
  std::FILE* file = std::fopen(written_path.c_str(), "we");
  if (file == nullptr) {
    return Status::Error(StatusCode::kIoError, "cannot write " + written_path, errno);
  }
  Status status = replay::WriteMooncake(trace, file).WithContext(written_path);
  if (std::fclose(file) != 0 && status.ok()) {
    status = Status::Error(StatusCode::kIoError, "cannot write " + written_path, errno);
  }
  if (is_special) {
    return status;
  }
  if (status.ok() && std::rename(written_path.c_str(), path.c_str()) != 0) {
    status = Status::Error(StatusCode::kIoError, "cannot replace " + path, errno);
  }
  if (!status.ok()) {
    std::filesystem::remove(written_path, error);
  }
  return status;
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
    PrintNotes(*trace);
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
  convert->add_option("-o,--output", arguments.output, "Where to write; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  AddTraceOptions(*convert, arguments.input);
  convert->add_option("--seed", arguments.input.seed, "Seed of drawn session starts")
      ->type_name("N")
      ->capture_default_str();
  convert->add_flag("-q,--quiet", arguments.input.is_quiet,
                    "No progress bar and no notes on stderr");
  convert->callback([&arguments, &exit_code] { exit_code = RunConvert(arguments); });
}

}  // namespace kvferry::tool
