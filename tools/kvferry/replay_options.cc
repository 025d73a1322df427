// The option table of `kvferry replay`, and what of it a report repeats.
#include "replay_options.h"

#include <array>
#include <charconv>
#include <string_view>

#include "number_checks.h"
#include "replay/text_format.h"

#include <CLI/CLI.hpp>

namespace kvferry::tool {
namespace {

constexpr std::uint64_t kSeedMax = UINT64_MAX;
constexpr std::uint64_t kBlockTokensMax = UINT32_MAX;
constexpr std::uint64_t kRequestsMax = std::uint64_t{1} << 62;
constexpr std::uint64_t kJobsMax = 1024;
constexpr double kTokensPerSecondMax = 1e12;
constexpr double kTokenBytesMax = 1e12;

}  // namespace

CLI::Option* AddSeedOption(CLI::App& command, ReplayArguments& arguments, const std::string& help) {
  return command.add_option("--seed", arguments.seed, help)
      ->type_name("N")
      ->check(WholeNumber(0, kSeedMax))
      ->capture_default_str();
}

void AddTraceOptions(CLI::App& command, ReplayArguments& arguments) {
  const std::string group = "Input";
  command
      .add_option(
          "--format", arguments.format,
          "Format of the traces, of the folder or archive for sessions and ragpulse; recognised by "
          "content when left out")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--block-tokens", arguments.block_tokens,
                  "Tokens a block of the trace; the file's own field or inferred when left out")
      ->type_name("N")
      ->check(WholeNumber(1, kBlockTokensMax))
      ->group(group);
  command
      .add_flag("--shared-ids", arguments.shares_ids,
                "Equal ids of different files are the same block")
      ->group(group);
  command
      .add_option("--session-gap", arguments.session_gap,
                  "Mean of the drawn times between session starts (session JSON only; 0: all at "
                  "once)")
      ->type_name("TIME")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--from", arguments.from, "Leave out requests before this time from the first")
      ->type_name("TIME")
      ->group(group);
  command.add_option("--to", arguments.to, "Leave out requests from this time after the first on")
      ->type_name("TIME")
      ->group(group);
  command.add_option("--limit", arguments.limit, "Keep the first N requests only")
      ->type_name("N")
      ->check(WholeNumber(1, kRequestsMax))
      ->group(group);
  command
      .add_option("--skip-bad-lines", arguments.skip_bad_lines,
                  "Go on over at most N lines that cannot be read, and count them")
      ->type_name("N")
      ->check(WholeNumber(0, kRequestsMax))
      ->group(group);
  command
      .add_option(
          "--memory", arguments.memory,
          "Stop, saying what is needed, before the trace's tables and those of the cells that run "
          "take more than this; the program, its buffers and statistics come on top")
      ->type_name("BYTES")
      ->group(group);
}

namespace {

// The shortest text that reads back as the same number.
std::string FormatNumber(double number) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), written.ptr};
}

void AddCacheOptions(CLI::App& command, ReplayArguments& arguments) {
  const std::string group = "Cache";
  command.add_option("--mode", arguments.mode, "What is replayed: cache (policies only)")
      ->type_name("MODE")
      ->check(CLI::IsMember({"cache"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("-p,--policy", arguments.policies,
                  "Eviction policies, comma separated, or all. Also second-sight:NAME and "
                  "adaptive:NAME (docs/policies.md)")
      ->type_name("LIST")
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "-c,--capacity", arguments.capacities,
          "Cache sizes, comma separated: blocks (5000), a share of the distinct blocks (5%) "
          "or bytes (64GiB, with --model or --bytes-per-token)")
      ->type_name("LIST")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--hit-rule", arguments.hit_rule,
                  "prefix: a request hits its longest resident prefix; block: every reference "
                  "counts on its own")
      ->type_name("RULE")
      ->check(CLI::IsMember({"prefix", "block"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--warmup", arguments.warmup,
                  "Do not count the first N requests, or those before a time (10min)")
      ->type_name("N|TIME")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--store-output", arguments.stores_output,
                "Where a later request continues this one, count its answer's blocks as stored")
      ->group(group);
  command
      .add_option("--model", arguments.model,
                  "config.json of the served model: gives bytes a block (bf16)")
      ->type_name("CONFIG")
      ->group(group);
  command
      .add_option("--bytes-per-token", arguments.bytes_per_token,
                  "KV bytes a token, instead of --model")
      ->type_name("N")
      ->check(AmountAbove0(kTokenBytesMax))
      ->group(group);
  command
      .add_option("--prefill-rate", arguments.prefill_rate,
                  "Prefill tokens a second of the server: says what the hits save in seconds")
      ->type_name("N")
      ->check(AmountAbove0(kTokensPerSecondMax))
      ->group(group);
}

void AddOutputOptions(CLI::App& command, ReplayArguments& arguments) {
  const std::string group = "Output";
  auto* json =
      command.add_flag("--json", arguments.prints_json, "Print one JSON object")->group(group);
  command.add_flag("--csv", arguments.prints_csv, "Print one CSV row a result")
      ->excludes(json)
      ->group(group);
  command
      .add_option("--html", arguments.html_path,
                  "Also write a page with the curves, self-contained (needs python3-matplotlib)")
      ->type_name("FILE")
      ->group(group);
  command.add_flag("-q,--quiet", arguments.is_quiet, "No progress bar and no notes on stderr")
      ->group(group);
  command.add_flag("--list-formats", arguments.lists_formats, "Print the trace formats and end")
      ->group(group);
  AddSeedOption(command, arguments, "Seed of everything drawn: workload, session starts, policies")
      ->group(group);
  command.add_option("-j,--jobs", arguments.jobs, "Cells at a time; one a core when left out")
      ->type_name("N")
      ->check(WholeNumber(1, kJobsMax))
      ->group(group);
}

}  // namespace

void AddReplayOptions(CLI::App& command, ReplayArguments& arguments) {
  command
      .add_option("-t,--trace", arguments.traces,
                  "Trace file, folder of session JSON, or - for standard input; repeatable. Plain, "
                  ".gz or .zst. Without it, a generated workload is replayed")
      ->type_name("FILE")
      ->group("Input");
  AddTraceOptions(command, arguments);
  AddCacheOptions(command, arguments);
  AddOutputOptions(command, arguments);
}

std::vector<replay::ReportOption> EchoOptions(const ReplayArguments& arguments) {
  const auto join = [](const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) {
      text.append(text.empty() ? "" : ",").append(part);
    }
    return text;
  };
  std::vector<replay::ReportOption> echo = {
      {"mode", arguments.mode},
      {"trace", join(arguments.traces)},
      {"policy", join(arguments.policies)},
      {"capacity", join(arguments.capacities)},
      {"hit-rule", arguments.hit_rule},
      {"warmup", arguments.warmup},
      {"store-output", arguments.stores_output ? "true" : "false"},
      {"seed", std::to_string(arguments.seed)}};
  const auto add = [&](std::string_view name, const std::string& value, bool is_set) {
    if (is_set) {
      echo.push_back({std::string(name), value});
    }
  };
  add("format", arguments.format, !arguments.format.empty());
  add("block-tokens", std::to_string(arguments.block_tokens), arguments.block_tokens > 0);
  add("shared-ids", "true", arguments.shares_ids);
  add("session-gap", arguments.session_gap, true);
  add("from", arguments.from, !arguments.from.empty());
  add("to", arguments.to, !arguments.to.empty());
  add("limit", std::to_string(arguments.limit), arguments.limit > 0);
  add("skip-bad-lines", std::to_string(arguments.skip_bad_lines), arguments.skip_bad_lines > 0);
  add("model", arguments.model, !arguments.model.empty());
  add("bytes-per-token", FormatNumber(arguments.bytes_per_token), arguments.bytes_per_token > 0);
  add("prefill-rate", FormatNumber(arguments.prefill_rate), arguments.prefill_rate > 0);
  return echo;
}

}  // namespace kvferry::tool
