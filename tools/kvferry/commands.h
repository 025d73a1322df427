// The subcommands of kvferry, one file each.
#pragma once

#include <string>

#include "replay_options.h"

namespace kvferry::tool {

struct ConvertArguments {
  ReplayArguments input;  // Only what AddTraceOptions reads, the traces, seed and quiet.
  std::string output = "-";
};

// Each adds its subcommand to `app`; when the user chose it, the parse runs it and puts the exit
// code into `exit_code`. All arguments must outlive the parse.
void AddReplayCommand(CLI::App& app, ReplayArguments& arguments, int& exit_code);
void AddTraceCommand(CLI::App& app, ConvertArguments& arguments, int& exit_code);

}  // namespace kvferry::tool
