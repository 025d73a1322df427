// `kvferry bench reopen`: how soon a store serves again after its process was killed.
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>

#include "bench/bench_report.h"
#include "bench/reopen_bench.h"
#include "commands.h"
#include "exit_code.h"
#include "number_checks.h"

namespace kvferry::tool {
namespace {

constexpr std::uint64_t kBlocksMin = 1'000;
constexpr std::uint64_t kBlocksMax = 1'000'000'000;

constexpr std::string_view kFooter =
    "A process fills a store with blocks of 4 KiB and is killed when the last one is durable; "
    "then\n"
    "another engine opens it and is asked for one block after the other. open, first_answer,\n"
    "first_hit and scan are times since Open was called; read is what came from the drive until "
    "the\n"
    "scan had ended, beside the bytes of all payloads, which a scan of the data would read.\n"
    "The files go into a folder of their own in --dir and are removed at the end, or when the\n"
    "command is ended early: some 4.5 KiB a block.\n"
    "docs/performance.md has figures.";

int RunReopen(const ReopenBenchArguments& arguments) {
  bench::ReopenBenchOptions options;
  options.dir = arguments.dir;
  options.blocks = arguments.blocks;
  const auto on_step = [&](std::string_view step) {
    if (!arguments.is_quiet) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(step.size()), step.data());
    }
  };
  const auto results = bench::RunReopenBench(options, on_step);
  if (!results.ok()) {
    return ReportStatus(results.error());
  }
  std::ostringstream text;
  if (arguments.prints_json) {
    bench::PrintJson(text, "reopen", *results);
  } else {
    text << bench::DescribeMachine() << '\n';
    bench::PrintTable(text, *results);
  }
  return PrintOutput(text.str());
}

}  // namespace

void AddReopenBench(CLI::App& bench, ReopenBenchArguments& arguments, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("reopen", "How soon a store serves again after its process was killed");
  command->add_option("--dir", arguments.dir, "Folder on the drive to measure")
      ->type_name("FOLDER")
      ->required();
  command->add_option("--blocks", arguments.blocks, "Blocks in the store")
      ->type_name("N")
      ->check(WholeNumber(kBlocksMin, kBlocksMax))
      ->capture_default_str();
  command->add_flag("--json", arguments.prints_json, "Print one JSON object");
  command->add_flag("-q,--quiet", arguments.is_quiet, "Do not tell each step on stderr");
  command->footer(std::string(kFooter));
  command->callback([&arguments, &exit_code] { exit_code = RunReopen(arguments); });
}

}  // namespace kvferry::tool
