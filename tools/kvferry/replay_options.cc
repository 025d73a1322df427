// The option table of `kvferry replay` and what its values mean.
#include "replay_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <thread>

#include "base/bytes.h"
#include "model/kv_shape.h"
#include "replay/cell_runner.h"

namespace kvferry::tool {
namespace {

using replay::Capacity;
using replay::HitRule;

Status BadOption(std::string_view option, const Status& reason) {
  return reason.WithContext(option);
}

Status BadOption(std::string_view option, std::string_view value, std::string_view reason) {
  return Status::Error(
      StatusCode::kInvalidArgument,
      std::string(option) + " '" + std::string(value) + "': " + std::string(reason));
}

}  // namespace

void AddTraceOptions(CLI::App& command, ReplayArguments& arguments) {
  const std::string group = "Input";
  command
      .add_option("--format", arguments.format,
                  "Format of the traces; recognised by content when left out (--list-formats)")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--block-tokens", arguments.block_tokens,
                  "Tokens a block of the trace; the file's own field or inferred when left out")
      ->type_name("N")
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
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62))
      ->group(group);
  command
      .add_option("--skip-bad-lines", arguments.skip_bad_lines,
                  "Go on over at most N lines that cannot be read, and count them")
      ->type_name("N")
      ->group(group);
  command
      .add_option("--memory", arguments.memory,
                  "Stop, saying what is needed, before taking more memory than this")
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
      ->delimiter(',')
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "-c,--capacity", arguments.capacities,
          "Cache sizes, comma separated: blocks (5000), a share of the distinct blocks (5%) "
          "or bytes (64GiB, with --model or --bytes-per-token)")
      ->type_name("LIST")
      ->delimiter(',')
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
      ->check(CLI::PositiveNumber)
      ->group(group);
  command
      .add_option("--prefill-rate", arguments.prefill_rate,
                  "Prefill tokens a second of the server: says what the hits save in seconds")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
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
  command
      .add_option("--seed", arguments.seed,
                  "Seed of everything drawn: workload, session starts, policies")
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  command.add_option("-j,--jobs", arguments.jobs, "Cells at a time; one a core when left out")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->group(group);
}

Status CheckSelection(const ReplayArguments& arguments, replay::ReadOptions& read) {
  const auto read_time = [](std::string_view option, const std::string& text,
                            std::int64_t& time_ms) {
    if (text.empty()) {
      return Status::Ok();
    }
    const Result<std::int64_t> parsed = replay::ParseDurationMs(text);
    if (!parsed.has_value()) {
      return BadOption(option, parsed.error());
    }
    time_ms = *parsed;
    return Status::Ok();
  };
  KVFERRY_RETURN_IF_ERROR(read_time("--from", arguments.from, read.selection.from_ms));
  KVFERRY_RETURN_IF_ERROR(read_time("--to", arguments.to, read.selection.to_ms));
  if (read.selection.from_ms >= read.selection.to_ms) {
    return BadOption("--to", arguments.to, "lies before --from, so no request is left");
  }
  if (arguments.limit > 0) {
    read.selection.requests_max = arguments.limit;
  }
  std::int64_t gap_ms = 0;
  KVFERRY_RETURN_IF_ERROR(read_time("--session-gap", arguments.session_gap, gap_ms));
  read.session_gap_s = static_cast<double>(gap_ms) / 1e3;
  return Status::Ok();
}

Status CheckFormat(const std::string& format) {
  const std::vector<replay::TraceFormat> formats = replay::TraceFormats();
  if (format.empty() || std::any_of(formats.begin(), formats.end(),
                                    [&](const auto& known) { return known.name == format; })) {
    return Status::Ok();
  }
  std::string names;
  for (const replay::TraceFormat& known : formats) {
    names.append(names.empty() ? "" : ", ").append(known.name);
  }
  return BadOption("--format", format, "is not a format; one of " + names);
}

Status CheckPolicies(const ReplayArguments& arguments, std::vector<std::string>& policies) {
  for (const std::string& name : arguments.policies) {
    if (name == "all") {
      for (const std::string_view known : replay::CellPolicyNames()) {
        policies.emplace_back(known);
      }
      continue;
    }
    if (const Status status = replay::CheckPolicyName(name); !status.ok()) {
      return BadOption("--policy", status);
    }
    policies.push_back(name);
  }
  std::vector<std::string> unique;
  for (const std::string& name : policies) {
    if (std::find(unique.begin(), unique.end(), name) == unique.end()) {
      unique.push_back(name);
    }
  }
  policies = unique;
  return Status::Ok();
}

Status CheckWarmup(const std::string& text, ReplayOptions& options) {
  if (!text.empty() &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
      text.size() <= 18) {
    options.warmup_requests = std::stoull(text);
    return Status::Ok();
  }
  const Result<std::int64_t> time_ms = replay::ParseDurationMs(text);
  if (!time_ms.has_value()) {
    return BadOption("--warmup", text,
                     "is neither a number of requests (1000) nor a time with a unit (10min)");
  }
  options.warmup_ms = *time_ms;
  return Status::Ok();
}

Status CheckModel(const ReplayArguments& arguments, ReplayOptions& options) {
  options.bytes_per_token = arguments.bytes_per_token;
  if (arguments.model.empty()) {
    return Status::Ok();
  }
  if (arguments.bytes_per_token > 0) {
    return BadOption("--model", arguments.model,
                     "cannot go with --bytes-per-token: give one of them");
  }
  const Result<model::KvShape> shape = model::ReadKvShape(arguments.model);
  if (!shape.has_value()) {
    return BadOption("--model", shape.error());
  }
  options.bytes_per_token = static_cast<double>(model::BytesPerToken(*shape));
  return Status::Ok();
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

Result<replay::ReadOptions> CheckTraceArguments(const ReplayArguments& arguments) {
  replay::ReadOptions read;
  read.paths = arguments.traces;
  read.format = arguments.format;
  read.block_tokens = arguments.block_tokens;
  read.shares_ids = arguments.shares_ids;
  read.skip_bad_lines_max = arguments.skip_bad_lines;
  read.seed = arguments.seed;
  KVFERRY_RETURN_IF_ERROR(CheckFormat(arguments.format));
  KVFERRY_RETURN_IF_ERROR(CheckSelection(arguments, read));
  if (!arguments.memory.empty()) {
    const Result<std::uint64_t> bytes = ParseBytes(arguments.memory);
    if (!bytes.has_value()) {
      return BadOption("--memory", bytes.error());
    }
    read.memory_max_bytes = *bytes;
  }
  return read;
}

Result<ReplayOptions> CheckReplayArguments(const ReplayArguments& arguments) {
  ReplayOptions options;
  KVFERRY_ASSIGN_OR_RETURN(options.read, CheckTraceArguments(arguments));
  KVFERRY_RETURN_IF_ERROR(CheckPolicies(arguments, options.policies));
  for (const std::string& text : arguments.capacities) {
    const Result<Capacity> capacity = replay::ParseCapacity(text);
    if (!capacity.has_value()) {
      return BadOption("--capacity", capacity.error());
    }
    options.capacities.push_back(*capacity);
  }
  options.hit_rule = arguments.hit_rule == "block" ? HitRule::kBlock : HitRule::kPrefix;
  KVFERRY_RETURN_IF_ERROR(CheckWarmup(arguments.warmup, options));
  KVFERRY_RETURN_IF_ERROR(CheckModel(arguments, options));
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  options.jobs = arguments.jobs > 0 ? arguments.jobs : std::max(1, cores);
  return options;
}

}  // namespace kvferry::tool
