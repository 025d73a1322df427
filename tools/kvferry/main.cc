// The kvferry command line: one file a subcommand.
#include <csignal>
#include <cstdio>
#include <exception>

#include "kvferry/version.h"

#include "commands.h"
#include "exit_code.h"
#include "usage_error.h"

#include <CLI/CLI.hpp>

namespace {

int Run(int argc, char** argv) {
  CLI::App app{"kvferry: what a tiered KV cache does for LLM inference traffic"};
  app.name("kvferry");
  app.set_version_flag("--version", std::string("kvferry ") + kvferry::kVersion);
  app.require_subcommand(1);
  app.footer("kvferry COMMAND --help explains a command. Exit codes: 0 done, 1 failure, 2 usage.");
  int exit_code = kvferry::tool::kExitOk;
  kvferry::tool::ReplayArguments replay_arguments;
  kvferry::tool::ConvertArguments convert_arguments;
  kvferry::tool::StressArguments stress_arguments;
  kvferry::tool::AllBenchArguments bench_arguments;
  kvferry::tool::StoreArguments inspect_arguments;
  kvferry::tool::StoreArguments fsck_arguments;
  kvferry::tool::AddReplayCommand(app, replay_arguments, exit_code);
  kvferry::tool::AddStressCommand(app, stress_arguments, exit_code);
  kvferry::tool::AddTraceCommand(app, convert_arguments, exit_code);
  kvferry::tool::AddBenchCommand(app, bench_arguments, exit_code);
  kvferry::tool::AddInspectCommand(app, inspect_arguments, exit_code);
  kvferry::tool::AddFsckCommand(app, fsck_arguments, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return kvferry::tool::PrintOutput(app.help());
  } catch (const CLI::CallForAllHelp&) {
    return kvferry::tool::PrintOutput(app.help("", CLI::AppFormatMode::All));
  } catch (const CLI::CallForVersion& version) {
    return kvferry::tool::PrintOutput(std::string(version.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    return kvferry::tool::ReportUsageError(app, error);
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that went away shows up as EPIPE, which PrintOutput takes for a quiet end.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvferry: %s\n", error.what());
    return kvferry::tool::kExitFailure;
  }
}
