// The subcommands of kvferry, one file each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>

#include "replay_options.h"

namespace kvferry::tool {

struct ConvertArguments {
  ReplayArguments input;  // Only what AddTraceOptions reads, the traces, seed and quiet.
  std::string output = "-";
};

struct StressArguments {
  bool is_sim = false;
  std::uint64_t seeds = 200;
  std::uint64_t seed = 1;
  std::uint32_t operations = 2'000;
  std::string level = "hostile";
  std::uint32_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool is_json = false;
  bool is_quiet = false;
};

// Each adds its subcommand to `app`; when the user chose it, the parse runs it and puts the exit
// code into `exit_code`. All arguments must outlive the parse.
void AddReplayCommand(CLI::App& app, ReplayArguments& arguments, int& exit_code);
void AddStressCommand(CLI::App& app, StressArguments& arguments, int& exit_code);
void AddTraceCommand(CLI::App& app, ConvertArguments& arguments, int& exit_code);

}  // namespace kvferry::tool
