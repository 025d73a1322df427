// `kvferry bench decode`: a synthetic decoder over blocks that are staged through the engine.
#include <cstdint>
#include <cstdio>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "bench/decode_bench.h"
#include "bench/decode_report.h"
#include "commands.h"
#include "exit_code.h"
#include "number_checks.h"

namespace kvferry::tool {
namespace {

constexpr std::uint64_t kSessionsMax = 65'536;
constexpr std::uint64_t kTokensMax = 1U << 20;
constexpr std::uint64_t kBlocksMax = 1U << 24;
constexpr std::uint64_t kStepsMax = 1U << 20;
constexpr std::uint64_t kBlockTokensMax = 1'024;
constexpr std::uint64_t kHintTurnsMax = 64;
constexpr std::uint64_t kRowsMax = 1U << 20;
constexpr std::uint64_t kLayersMax = 4'096;
constexpr std::uint64_t kGpusMax = 1'023;

constexpr std::string_view kFooter =
    "Sessions take turns in batches; each step decodes a token of every session of the batch by\n"
    "paged attention over block tables, layer by layer. The same steps run twice: with all "
    "sessions\n"
    "in HBM, and with --hbm-blocks of it, where a session's blocks are put into the engine when "
    "its\n"
    "turn ends and are fetched back for its next one, hinted --hint-turns ahead; before attention\n"
    "reads a layer it waits for that layer's blocks. Both must make the same outputs to the bit\n"
    "(output_sha256), and --check-rows of them are held against double precision: else the exit\n"
    "code is 1.\n"
    "Cases: step_resident and step_staged, times of a step, means and p99, without the first "
    "turn;\n"
    "stall_share, what staging adds, as a share of the staged steps; waited, in which the decoder\n"
    "could only wait for blocks; attention_*, bytes of keys and values read, by step time;\n"
    "max_relative_error; bytes_h2d, bytes_d2h, bytes_nvme_read and bytes_nvme_written of the "
    "staged\n"
    "run, after every session was computed once; wasted_prefetch_share; blocks_recomputed, which\n"
    "the engine had not any more.\n"
    "With --device sim the steps run on a simulated CUDA runtime, thread by thread: results are\n"
    "those of a GPU, times are not, and models of real size take long: limit their --layers.\n"
    "Examples:\n"
    "  kvferry bench decode\n"
    "  kvferry bench decode --device cuda --model config.json --sessions 64 --context 8192 \\\n"
    "    --hbm-blocks 16384 --steps 256 --turn-steps 16\n"
    "docs/performance.md explains it.";

int RunDecode(const DecodeBenchArguments& arguments) {
  bench::DecodeBenchOptions options = arguments.options;
  options.device = arguments.device == "cuda" ? bench::DecodeBenchOptions::Device::kCuda
                                              : bench::DecodeBenchOptions::Device::kSim;
  const auto on_step = [&](std::string_view step) {
    if (!arguments.is_quiet) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(step.size()), step.data());
    }
  };
  const auto report = bench::RunDecodeBench(options, on_step);
  if (!report.ok()) {
    return ReportStatus(report.error());
  }
  std::ostringstream text;
  if (arguments.prints_json) {
    bench::PrintJson(text, *report);
  } else {
    text << bench::DescribeMachine() << '\n';
    bench::PrintTable(text, *report);
  }
  const int printed = PrintOutput(text.str());
  return printed != kExitOk ? printed : ReportStatus(report->Verdict());
}

void AddSizes(CLI::App& command, bench::DecodeBenchOptions& options) {
  const auto number = [&](const char* name, std::uint32_t& value, const char* text,
                          const CLI::Validator& check) {
    command.add_option(name, value, text)->type_name("N")->check(check)->capture_default_str();
  };
  number("--layers", options.layers, "Decode no more than so many of the model's layers; 0: all",
         WholeNumber(0, kLayersMax));
  number("--block-tokens", options.block_tokens, "Tokens of a block, which is a page",
         WholeNumber(1, kBlockTokensMax));
  number("--sessions", options.sessions, "Sessions; together they must exceed HBM",
         WholeNumber(1, kSessionsMax));
  number("--context", options.context_tokens, "Tokens of a session before its first step",
         WholeNumber(1, kTokensMax));
  number("--hbm-blocks", options.hbm_blocks,
         "Blocks that HBM has room for: the batch that is decoded and the next one",
         WholeNumber(1, kBlocksMax));
  number("--host-blocks", options.host_blocks,
         "Blocks that host memory has room for; 0: all sessions' and a quarter more",
         WholeNumber(0, kBlocksMax));
  number("--steps", options.steps, "Decode steps in all", WholeNumber(1, kStepsMax));
  number("--turn-steps", options.turn_steps, "Steps of a turn", WholeNumber(1, kStepsMax));
  number("--hint-turns", options.hint_turns,
         "Turns ahead that sessions are named to the engine; 0: not at all, blocks are fetched "
         "when their turn has come",
         WholeNumber(0, kHintTurnsMax));
  number("--check-rows", options.check_rows, "Outputs that are compared with double precision",
         WholeNumber(1, kRowsMax));
  number("--gpu", options.gpu, "Which of the visible GPUs, with --device cuda",
         WholeNumber(0, kGpusMax));
  command.add_option("--seed", options.seed, "Of all keys, values and queries")
      ->type_name("N")
      ->check(WholeNumber(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
}

}  // namespace

void AddDecodeBench(CLI::App& bench, DecodeBenchArguments& arguments, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "decode", "Decode attention over blocks staged back in time, beside all of them resident");
  command
      ->add_option("--model", arguments.options.model,
                   "config.json of a model, for its layers and heads; a toy when left out")
      ->type_name("CONFIG");
  command
      ->add_option("--nvme-dir", arguments.options.nvme_dir,
                   "Folder on a drive for blocks that host memory has no room for; the files are "
                   "removed at the end")
      ->type_name("FOLDER");
  command->add_option("--device", arguments.device, "What decodes: sim or cuda")
      ->check(CLI::IsMember({"sim", "cuda"}))
      ->capture_default_str();
  command
      ->add_option("--schedule", arguments.options.schedule,
                   "When the simulated device does what it was given: eager, lazy, random, threads")
      ->check(CLI::IsMember({"eager", "lazy", "random", "threads"}))
      ->capture_default_str();
  AddSizes(*command, arguments.options);
  command->add_flag("--json", arguments.prints_json, "Print one JSON object");
  command->add_flag("-q,--quiet", arguments.is_quiet, "Do not tell each step on stderr");
  command->footer(std::string(kFooter));
  command->callback([&arguments, &exit_code] { exit_code = RunDecode(arguments); });
}

}  // namespace kvferry::tool
