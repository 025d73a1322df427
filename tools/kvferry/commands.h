// The subcommands of kvferry, one file each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "bench/decode_bench.h"
#include "replay_options.h"
#include "store_access.h"

namespace kvferry::tool {

struct ConvertArguments {
  ReplayArguments input;  // Only what AddTraceOptions reads, the traces, seed and quiet.
  std::string output = "-";
};

struct StressArguments {
  bool is_sim = false;
  std::uint64_t kills = 0;       // 0: none are asked for.
  std::uint64_t damage = 0;      // Likewise.
  std::uint64_t power_cuts = 0;  // Likewise.
  bool is_nth_fault = false;
  std::uint64_t every = 1;
  std::string folder;
  std::uint64_t seeds = 200;
  std::uint64_t seed = 1;
  std::uint32_t operations = 2'000;
  std::string level = "hostile";
  std::uint32_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool is_json = false;
  bool is_quiet = false;
};

// Of `bench host`, as written on the command line.
struct BenchArguments {
  std::vector<std::string> cases;
  std::vector<std::string> blocks{"64KiB", "256KiB", "1MiB", "4MiB"};
  double seconds = 8;
  std::string host_bytes = "2GiB";
  std::uint32_t index_blocks = 1'048'576;
  std::uint32_t copy_threads = 1;
  bool prints_json = false;
  bool is_quiet = false;
};

// Of `bench nvme`, likewise.
struct NvmeBenchArguments {
  std::string dir;
  std::vector<std::string> cases;
  std::vector<std::string> blocks{"256KiB", "1MiB", "4MiB"};
  double seconds = 240;
  std::string host_bytes = "512MiB";
  std::string store_bytes = "4GiB";
  std::uint32_t copy_threads = 1;
  bool prints_json = false;
  bool is_quiet = false;
};

// Of `bench reopen`, likewise.
struct ReopenBenchArguments {
  std::string dir;
  std::uint64_t blocks = 1'000'000;
  bool prints_json = false;
  bool is_quiet = false;
};

// Of `bench decode`, likewise.
struct DecodeBenchArguments {
  bench::DecodeBenchOptions options;
  std::string device = "sim";
  bool prints_json = false;
  bool is_quiet = false;
};

// Of all of `bench`.
struct AllBenchArguments {
  BenchArguments host;
  NvmeBenchArguments nvme;
  ReopenBenchArguments reopen;
  DecodeBenchArguments decode;
};

// Each adds its subcommand to `app`; when the user chose it, the parse runs it and puts the exit
// code into `exit_code`. All arguments must outlive the parse.
void AddReplayCommand(CLI::App& app, ReplayArguments& arguments, int& exit_code);
void AddStressCommand(CLI::App& app, StressArguments& arguments, int& exit_code);
void AddTraceCommand(CLI::App& app, ConvertArguments& arguments, int& exit_code);
void AddBenchCommand(CLI::App& app, AllBenchArguments& arguments, int& exit_code);
// Parts of the bench command.
void AddNvmeBench(CLI::App& bench, NvmeBenchArguments& arguments, int& exit_code);
void AddReopenBench(CLI::App& bench, ReopenBenchArguments& arguments, int& exit_code);
void AddDecodeBench(CLI::App& bench, DecodeBenchArguments& arguments, int& exit_code);
void AddFsckCommand(CLI::App& app, StoreArguments& arguments, int& exit_code);
void AddInspectCommand(CLI::App& app, StoreArguments& arguments, int& exit_code);

}  // namespace kvferry::tool
