// `kvferry bench nvme`: what the arrows to and from the NVMe tier cost here, and what bounds them.
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "bench/bench_report.h"
#include "bench/nvme_bench.h"
#include "commands.h"
#include "exit_code.h"
#include "number_checks.h"

namespace kvferry::tool {
namespace {

constexpr double kSecondsMax = 86'400;
constexpr std::uint64_t kCopyThreadsMax = 1'024;

constexpr std::string_view kFooter =
    "offload puts blocks until the drive has them; onboard reads blocks that lie on the drive and\n"
    "not in host memory, with their checksums verified; mixed reads while another thread puts as\n"
    "fast as it can. All go through an engine, in slices of 200 ms that take turns with a plain\n"
    "loop of direct reads or writes over the same places, with as much in flight. The ratio is "
    "the\n"
    "median over the pairs of slices; 40 pairs make a good one. mixed_unlimited is that plain "
    "loop\n"
    "beside a writer that nothing holds back, which shows why the engine holds its own back.\n"
    "The files go into a folder of their own in --dir and are removed at the end, or when the\n"
    "command is ended early: --store-bytes for the tier, and as much again for plain writes.\n"
    "Memory: twice --host-bytes.\n"
    "Example:\n"
    "  kvferry bench nvme --dir /mnt/nvme0 --block 1MiB --case onboard --seconds 20\n"
    "docs/performance.md explains every column.";

Result<bench::NvmeBenchOptions> CheckArguments(const NvmeBenchArguments& arguments) {
  bench::NvmeBenchOptions options;
  options.dir = arguments.dir;
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
  const Result<std::uint64_t> store_bytes = ParseBytes(arguments.store_bytes);
  if (!store_bytes.ok()) {
    return store_bytes.error().WithContext("--store-bytes");
  }
  options.store_bytes = *store_bytes;
  options.seconds = arguments.seconds;
  options.copy_threads = arguments.copy_threads;
  KVFERRY_RETURN_IF_ERROR(options.Validate());
  return options;
}

int RunNvmeBench(const NvmeBenchArguments& arguments) {
  const Result<bench::NvmeBenchOptions> options = CheckArguments(arguments);
  if (!options.ok()) {
    return ReportStatus(options.error());
  }
  const auto on_step = [&](std::string_view step) {
    if (!arguments.is_quiet) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(step.size()), step.data());
    }
  };
  const auto report = bench::RunNvmeBench(*options, on_step);
  if (!report.ok()) {
    return ReportStatus(report.error());
  }
  std::ostringstream text;
  if (arguments.prints_json) {
    bench::PrintJson(text, *report);
  } else {
    text << bench::DescribeMachine() << "; " << report->io << "; pool of "
         << FormatBytes(report->host_bytes) << ", tier of " << FormatBytes(report->store_bytes)
         << ", requests of " << FormatBytes(report->request_bytes) << '\n';
    bench::PrintTable(text, *report);
  }
  return PrintOutput(text.str());
}

}  // namespace

void AddNvmeBench(CLI::App& bench, NvmeBenchArguments& arguments, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "nvme", "Offload and onboard between host memory and a drive, beside plain direct I/O");
  command->add_option("--dir", arguments.dir, "Folder on the drive to measure")
      ->type_name("FOLDER")
      ->required();
  command
      ->add_option("--case", arguments.cases,
                   "Cases to measure, comma separated: offload, onboard, mixed, mixed_unlimited; "
                   "all when left out")
      ->type_name("LIST")
      ->delimiter(',');
  command->add_option("--block", arguments.blocks, "Block sizes, comma separated")
      ->type_name("LIST")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--seconds", arguments.seconds,
                   "Time to measure in all, shared by the cases and sizes; filling the files comes "
                   "on top. A pair of slices takes 0.4")
      ->type_name("N")
      ->check(AmountAbove0(kSecondsMax))
      ->capture_default_str();
  command->add_option("--host-bytes", arguments.host_bytes, "The engine's pool in host memory")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      ->add_option("--store-bytes", arguments.store_bytes,
                   "What the tier's files take; at least four times --host-bytes")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--copy-threads", arguments.copy_threads, "Copy threads of the engine")
      ->type_name("N")
      ->check(WholeNumber(1, kCopyThreadsMax))
      ->capture_default_str();
  command->add_flag("--json", arguments.prints_json, "Print one JSON object");
  command->add_flag("-q,--quiet", arguments.is_quiet, "Do not tell each step on stderr");
  command->footer(std::string(kFooter));
  command->callback([&arguments, &exit_code] { exit_code = RunNvmeBench(arguments); });
}

}  // namespace kvferry::tool
