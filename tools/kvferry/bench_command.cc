// `kvferry bench host`: what the host tier costs on this machine, and what bounds it.
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "bench/bench_report.h"
#include "bench/host_bench.h"
#include "commands.h"
#include "exit_code.h"
#include "number_checks.h"

namespace kvferry::tool {
namespace {

constexpr double kSecondsMax = 86'400;
constexpr std::uint64_t kCopyThreadsMax = 1'024;

constexpr std::string_view kFooter =
    "get copies blocks out of a full pool and put copies new ones in, each of which pushes an old\n"
    "one out: 64 blocks a request (fewer where a pool has few), two requests in flight, in slices\n"
    "that take turns with memcpy between two halves of the caller's memory. All memory has been\n"
    "touched before, and comes up again only after as much as --host-bytes: give that several\n"
    "times the last cache. The ratio is the median over the pairs of slices.\n"
    "match_8192 is the processor time of one match of 8,192 blocks that are there, another run of\n"
    "keys each time, beside reading two random lines a key; match_8192_swept the same after a "
    "walk\n"
    "over other memory has emptied the caches. put_metadata is the processor\n"
    "time of the whole process for putting a block of 4 KiB, 256 a request, into that full index,\n"
    "less that of copying it with its checksum, to a place in as much memory as the pool has.\n"
    "index_bytes_per_block is what the tables take.\n"
    "Example:\n"
    "  kvferry bench host --case get,put --block 1MiB --host-bytes 8GiB\n"
    "docs/performance.md explains every case.";

Result<bench::HostBenchOptions> CheckBenchArguments(const BenchArguments& arguments) {
  bench::HostBenchOptions options;
  options.cases = arguments.cases;
  options.block_bytes.clear();
  for (const std::string& size : arguments.blocks) {
    const Result<std::uint64_t> bytes = ParseBytes(size);
    if (!bytes.ok()) {
      return bytes.error().WithContext("--block");
    }
    options.block_bytes.push_back(*bytes);
  }
  const Result<std::uint64_t> host_bytes = ParseBytes(arguments.host_bytes);
  if (!host_bytes.ok()) {
    return host_bytes.error().WithContext("--host-bytes");
  }
  options.host_bytes = *host_bytes;
  options.seconds = arguments.seconds;
  options.blocks = arguments.index_blocks;
  options.copy_threads = arguments.copy_threads;
  KVFERRY_RETURN_IF_ERROR(options.Validate());
  return options;
}

int RunHostBench(const BenchArguments& arguments) {
  const Result<bench::HostBenchOptions> options = CheckBenchArguments(arguments);
  if (!options.ok()) {
    return ReportStatus(options.error());
  }
  const auto on_step = [&](std::string_view step) {
    if (!arguments.is_quiet) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(step.size()), step.data());
    }
  };
  const auto results = bench::RunHostBench(*options, on_step);
  if (!results.ok()) {
    return ReportStatus(results.error());
  }
  std::ostringstream text;
  if (arguments.prints_json) {
    bench::PrintJson(text, "host", *results);
  } else {
    text << bench::DescribeMachine() << "; pool of " << FormatBytes(options->host_bytes)
         << ", index of " << options->blocks << " blocks; " << options->copy_threads
         << " copy thread" << (options->copy_threads == 1 ? "" : "s") << '\n';
    bench::PrintTable(text, *results);
  }
  return PrintOutput(text.str());
}

void AddHostBenchOptions(CLI::App& command, BenchArguments& arguments) {
  command
      .add_option("--case", arguments.cases,
                  "Cases to measure, comma separated: get, put, match_8192, match_8192_swept, "
                  "put_metadata, index_bytes_per_block; all when left out")
      ->type_name("LIST")
      ->delimiter(',');
  command.add_option("--block", arguments.blocks, "Block sizes of get and put, comma separated")
      ->type_name("LIST")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--seconds", arguments.seconds,
                  "Time to measure in all, shared by the cases; filling the pools comes on top")
      ->type_name("N")
      ->check(AmountAbove0(kSecondsMax))
      ->capture_default_str();
  command
      .add_option("--host-bytes", arguments.host_bytes,
                  "The engine's pool for get and put; the caller's side takes as much again")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option("--blocks", arguments.index_blocks,
                  "Blocks of 4 KiB in the index of the other cases; they take 4 GiB a million, "
                  "the caller's side up to 1 GiB, and put_metadata 4 GiB a million again")
      ->type_name("N")
      ->check(WholeNumber(bench::kIndexBlocksMin, bench::kIndexBlocksMax))
      ->capture_default_str();
  command
      .add_option("--copy-threads", arguments.copy_threads,
                  "Copy threads of the engine; memcpy has one")
      ->type_name("N")
      ->check(WholeNumber(1, kCopyThreadsMax))
      ->capture_default_str();
  command.add_flag("--json", arguments.prints_json, "Print one JSON object");
  command.add_flag("-q,--quiet", arguments.is_quiet, "Do not tell each step on stderr");
}

}  // namespace

void AddBenchCommand(CLI::App& app, AllBenchArguments& arguments, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure the engine on this machine");
  bench->require_subcommand(1);
  CLI::App* host = bench->add_subcommand(
      "host", "Get, put, match and the tables of an engine with host memory only");
  AddHostBenchOptions(*host, arguments.host);
  host->footer(std::string(kFooter));
  host->callback([&arguments, &exit_code] { exit_code = RunHostBench(arguments.host); });
  AddNvmeBench(*bench, arguments.nvme, exit_code);
  AddReopenBench(*bench, arguments.reopen, exit_code);
  AddDecodeBench(*bench, arguments.decode, exit_code);
}

}  // namespace kvferry::tool
