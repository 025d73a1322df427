// What the values of the option table mean, and what is refused with its reason and remedy.
#include <algorithm>
#include <string_view>
#include <thread>

#include "base/bytes.h"
#include "model/kv_shape.h"
#include "replay/cell_runner.h"
#include "replay_options.h"

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
    return BadOption("--to", arguments.to,
                     "leaves no request: give a time after that of --from, which is 0 when left "
                     "out");
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

// Options that say how a trace is read mean nothing without one.
Status CheckTraceOnly(const ReplayArguments& arguments) {
  if (!arguments.traces.empty()) {
    return Status::Ok();
  }
  constexpr std::string_view kReason = "says how a trace is read, and none is given: add --trace";
  if (!arguments.format.empty()) {
    return BadOption("--format", arguments.format, kReason);
  }
  if (arguments.skip_bad_lines > 0) {
    return BadOption("--skip-bad-lines", std::to_string(arguments.skip_bad_lines), kReason);
  }
  return arguments.shares_ids ? BadOption("--shared-ids", "true", kReason) : Status::Ok();
}

// The items between commas of all values given.
Result<std::vector<std::string>> SplitLists(std::string_view option,
                                            const std::vector<std::string>& lists) {
  std::vector<std::string> items;
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (true) {
      const std::string_view item = rest.substr(0, rest.find(','));
      if (item.empty()) {
        return BadOption(option, list,
                         "has an item with nothing in it: put one comma between two items");
      }
      items.emplace_back(item);
      if (item.size() == rest.size()) {
        break;
      }
      rest.remove_prefix(item.size() + 1);
    }
  }
  return items;
}

Status CheckPolicies(const ReplayArguments& arguments, std::vector<std::string>& policies) {
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           SplitLists("--policy", arguments.policies));
  for (const std::string& name : names) {
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

bool IsDigit(char character) {
  return character >= '0' && character <= '9';
}

Status CheckWarmup(const std::string& text, ReplayOptions& options) {
  const bool has_unit = !text.empty() && text.back() != '.' && !IsDigit(text.back());
  if (!has_unit) {
    if (!std::all_of(text.begin(), text.end(), IsDigit) || text.empty() || text.size() > 18) {
      return BadOption("--warmup", text,
                       "is neither a number of requests (1000, at most 18 digits) nor a time with "
                       "a unit (10min)");
    }
    options.warmup_requests = std::stoull(text);
    return Status::Ok();
  }
  const Result<std::int64_t> time_ms = replay::ParseDurationMs(text);
  if (!time_ms.has_value()) {
    return BadOption("--warmup", text,
                     std::string(time_ms.error().message()) +
                         "; a warm-up is a number of requests (1000) or a time with a unit "
                         "(10min)");
  }
  options.warmup_ms = *time_ms;
  return Status::Ok();
}

// What the bytes a token of a model do not say by themselves.
std::vector<std::string> ModelNotes(const model::KvShape& shape) {
  std::vector<std::string> notes = shape.notes;
  std::uint32_t windowed = 0;
  for (const model::KvGroup& group : shape.groups) {
    windowed += group.window_tokens > 0 ? group.layer_count : 0;
  }
  if (windowed > 0) {
    notes.push_back("bytes a token: " + std::to_string(windowed) + " of " +
                    std::to_string(shape.layer_count) +
                    " layers need a sliding window of tokens only, and are counted as if they kept "
                    "every token");
  }
  if (shape.indexer_elements_per_token > 0) {
    notes.push_back("bytes a token: the keys of the model's sparse-attention indexer (" +
                    std::to_string(shape.indexer_elements_per_token) +
                    " elements a token) are not counted");
  }
  std::uint32_t states = 0;
  for (const model::StateGroup& group : shape.states) {
    states += group.layer_count;
  }
  if (states > 0) {
    notes.push_back("bytes a token: the states of " + std::to_string(states) +
                    " layers, which are of one size however long a sequence is, are not counted");
  }
  return notes;
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
  options.model_notes = ModelNotes(*shape);
  return Status::Ok();
}

}  // namespace

Result<replay::ReadOptions> CheckTraceArguments(const ReplayArguments& arguments) {
  replay::ReadOptions read;
  read.paths = arguments.traces;
  read.format = arguments.format;
  read.block_tokens = arguments.block_tokens;
  read.shares_ids = arguments.shares_ids;
  read.skip_bad_lines_max = arguments.skip_bad_lines;
  read.seed = arguments.seed;
  KVFERRY_RETURN_IF_ERROR(CheckFormat(arguments.format));
  KVFERRY_RETURN_IF_ERROR(CheckTraceOnly(arguments));
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
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<std::string> capacities,
                           SplitLists("--capacity", arguments.capacities));
  for (const std::string& text : capacities) {
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
