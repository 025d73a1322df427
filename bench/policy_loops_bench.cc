// How many references a second each policy's whole replay loop plays, beside a bare array walk.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvferry/policy.h"
#include "kvferry/status.h"

#include "bench/bench_report.h"
#include "policy/policy_registry.h"
#include "replay/cache_cell.h"
#include "replay/min_bound.h"
#include "replay/read_trace.h"
#include "replay/workload.h"

namespace kvferry::bench {
namespace {

constexpr std::string_view kUsage =
    "policy_loops_bench: million references a second through each policy's replay loop\n"
    "  --trace FILE        a trace of any known format; default: a generated workload\n"
    "  --requests N        size of the generated workload (default 2000)\n"
    "  --capacity LIST     percent of the distinct blocks, rounded (default 10)\n"
    "  --policy LIST       names, \"all\" by default; min is one of them\n"
    "  --hit-rule RULE     prefix (default) or block\n"
    "  --runs N            runs a case, of which the median counts (default 5)\n"
    "  --write-references FILE\n"
    "                      also write the references as libCacheSim reads them (oracleGeneral)\n"
    "  --json              one object instead of a table\n"
    "Values are from the thread's processor time. The bound is the sum of a byte array by entry\n"
    "number over the same paths in the same run.\n";

struct Arguments {
  std::string trace;
  std::uint32_t requests = 2'000;
  std::vector<double> percents = {10};
  std::vector<std::string> policies;
  replay::HitRule hit_rule = replay::HitRule::kPrefix;
  int runs = 5;
  std::string references_file;
  bool is_json = false;
  bool is_help = false;
};

Status BadArgument(std::string_view option, std::string_view value) {
  std::string message("'");
  message.append(value).append("' is no value for ").append(option).append("; see --help");
  return Status::Error(StatusCode::kInvalidArgument, std::move(message));
}

template <class Number>
bool ParseNumber(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0;
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(comma + 1);
  }
}

// One option that takes a value.
Status SetOption(std::string_view option, std::string_view value, Arguments& arguments) {
  bool is_good = true;
  if (option == "--trace") {
    arguments.trace = value;
  } else if (option == "--requests") {
    is_good = ParseNumber(value, arguments.requests);
  } else if (option == "--runs") {
    is_good = ParseNumber(value, arguments.runs);
  } else if (option == "--write-references") {
    arguments.references_file = value;
  } else if (option == "--policy") {
    arguments.policies = value == "all" ? std::vector<std::string>() : SplitList(value);
  } else if (option == "--hit-rule") {
    is_good = value == "prefix" || value == "block";
    arguments.hit_rule = value == "block" ? replay::HitRule::kBlock : replay::HitRule::kPrefix;
  } else if (option == "--capacity") {
    arguments.percents.clear();
    for (const std::string& part : SplitList(value)) {
      double percent = 0;
      is_good = is_good && ParseNumber(std::string_view(part), percent) && percent <= 100;
      arguments.percents.push_back(percent);
    }
  } else {
    std::string message(option);
    message.append(" is not an option; see --help");
    return Status::Error(StatusCode::kInvalidArgument, std::move(message));
  }
  return is_good ? Status::Ok() : BadArgument(option, value);
}

Result<Arguments> ParseArguments(std::span<char* const> words) {
  Arguments arguments;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--json") {
      arguments.is_json = true;
    } else if (word == "--help") {
      arguments.is_help = true;
    } else if (i + 1 < words.size()) {
      KVFERRY_RETURN_IF_ERROR(SetOption(word, words[++i], arguments));
    } else {
      return BadArgument(word, "");
    }
  }
  if (arguments.policies.empty()) {
    for (const std::string_view name : EvictionPolicyNames()) {
      arguments.policies.emplace_back(name);
    }
    arguments.policies.emplace_back(replay::kMinPolicyName);
  }
  return arguments;
}

Result<replay::Trace> LoadTrace(const Arguments& arguments) {
  if (arguments.trace.empty()) {
    replay::WorkloadOptions options;
    options.requests_max = arguments.requests;
    return replay::GenerateWorkload(options);
  }
  replay::ReadOptions options;
  options.paths = {arguments.trace};
  return replay::ReadTrace(options, [](const replay::ReadProgress& /*progress*/) {});
}

struct Run {
  double seconds = 0;
  std::uint64_t checksum = 0;
};

Run WalkArray(const replay::Trace& trace) {
  std::vector<std::uint8_t> bytes(trace.distinct_blocks());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i % 7);
  }
  std::vector<EntryIndex> path(trace.path_blocks_max());
  Run run;
  const double start = ThreadSeconds();
  for (const replay::TraceRequest& request : trace.requests()) {
    const std::span<EntryIndex> blocks(path.data(), request.block_count);
    trace.ReadPath(request, blocks);
    for (const EntryIndex entry : blocks) {
      run.checksum += bytes[static_cast<std::uint32_t>(entry)];
    }
  }
  run.seconds = ThreadSeconds() - start;
  return run;
}

Result<Run> PlayPolicy(const replay::Trace& trace,
                       const std::string& name,
                       const replay::CellOptions& options) {
  Run run;
  if (name == replay::kMinPolicyName) {
    const double start = ThreadSeconds();
    run.checksum = replay::RunMinCell(trace, options).hit_blocks;
    run.seconds = ThreadSeconds() - start;
    return run;
  }
  const PolicyOptions policy_options{.entries_max = trace.distinct_blocks(),
                                     .residents_max = options.capacity_blocks};
  KVFERRY_RETURN_IF_ERROR(policy::VisitPolicy(name, policy_options, [&](auto& policy) {
    using Policy = std::remove_reference_t<decltype(policy)>;
    replay::CacheCell<Policy> cell(trace, options, policy);
    const double start = ThreadSeconds();
    run.checksum = cell.Run().hit_blocks;
    run.seconds = ThreadSeconds() - start;
  }));
  return run;
}

Result<BenchResult> Measure(const replay::Trace& trace,
                            const Arguments& arguments,
                            const std::string& name,
                            double percent) {
  replay::CellOptions options;
  options.capacity_blocks =
      static_cast<std::uint32_t>(percent / 100 * trace.distinct_blocks() + .5);
  options.capacity_blocks = std::max(options.capacity_blocks, 1U);
  options.hit_rule = arguments.hit_rule;
  std::vector<double> rates;
  std::vector<double> bounds;
  BenchResult result;
  const double million_refs = static_cast<double>(trace.block_refs()) * 1e-6;
  for (int i = 0; i < arguments.runs; ++i) {
    // In turn, so that a slow moment of the machine meets both.
    bounds.push_back(million_refs / WalkArray(trace).seconds);
    KVFERRY_ASSIGN_OR_RETURN(const Run run, PlayPolicy(trace, name, options));
    rates.push_back(million_refs / run.seconds);
    result.checksum = run.checksum;
  }
  std::array<char, 32> percent_text{};
  const auto text_end =
      std::to_chars(percent_text.data(), percent_text.data() + percent_text.size(), percent).ptr;
  result.name = name;
  result.name.append(" at ")
      .append(percent_text.data(), text_end)
      .append(" %, ")
      .append(arguments.hit_rule == replay::HitRule::kBlock ? "block rule" : "prefix rule");
  result.value = Median(rates);
  result.unit = "Mrefs/s";
  result.bound = "array walk";
  result.bound_value = Median(bounds);
  return result;
}

// libCacheSim's binary trace: time, object, size, and the number of the next reference or -1.
Status WriteReferences(const replay::Trace& trace, const std::string& file) {
  std::vector<std::int64_t> next(trace.block_refs(), -1);
  std::vector<std::int64_t> seen(trace.distinct_blocks(), -1);
  std::vector<EntryIndex> path(trace.path_blocks_max());
  std::ofstream out(file, std::ios::binary);
  for (const bool is_writing : {false, true}) {
    std::int64_t reference = 0;
    for (const replay::TraceRequest& request : trace.requests()) {
      const std::span<EntryIndex> blocks(path.data(), request.block_count);
      trace.ReadPath(request, blocks);
      for (const EntryIndex entry : blocks) {
        const auto number = static_cast<std::uint32_t>(entry);
        if (is_writing) {
          const auto time_s = static_cast<std::uint32_t>(request.time_ms / 1000);
          const std::uint64_t object = number + std::uint64_t{1};
          const std::uint32_t size = 1;
          const std::int64_t next_use = next[static_cast<std::size_t>(reference)];
          out.write(reinterpret_cast<const char*>(&time_s), sizeof(time_s));
          out.write(reinterpret_cast<const char*>(&object), sizeof(object));
          out.write(reinterpret_cast<const char*>(&size), sizeof(size));
          out.write(reinterpret_cast<const char*>(&next_use), sizeof(next_use));
        } else if (seen[number] >= 0) {
          next[static_cast<std::size_t>(seen[number])] = reference;
        }
        seen[number] = reference++;
      }
    }
  }
  out.close();
  if (!out) {
    std::string message("cannot write ");
    return Status::Error(StatusCode::kIoError, std::move(message.append(file)));
  }
  return Status::Ok();
}

Status RunBench(const Arguments& arguments) {
  KVFERRY_ASSIGN_OR_RETURN(const replay::Trace trace, LoadTrace(arguments));
  if (trace.block_refs() == 0) {
    return Status::Error(StatusCode::kInvalidArgument, "the trace has no block references");
  }
  if (!arguments.references_file.empty()) {
    KVFERRY_RETURN_IF_ERROR(WriteReferences(trace, arguments.references_file));
  }
  std::vector<BenchResult> results;
  for (const double percent : arguments.percents) {
    for (const std::string& name : arguments.policies) {
      KVFERRY_ASSIGN_OR_RETURN(BenchResult result, Measure(trace, arguments, name, percent));
      results.push_back(std::move(result));
    }
  }
  if (arguments.is_json) {
    PrintJson(std::cout, "policy_loops", results);
    return Status::Ok();
  }
  std::cout << trace.origin().name << ": " << trace.requests().size() << " requests, "
            << trace.block_refs() << " references, " << trace.distinct_blocks() << " distinct; "
            << DescribeMachine() << "; median of " << arguments.runs << " runs\n";
  PrintTable(std::cout, results);
  return Status::Ok();
}

}  // namespace
}  // namespace kvferry::bench

int main(int argc, char** argv) {
  const auto arguments = kvferry::bench::ParseArguments({argv, static_cast<std::size_t>(argc)});
  if (!arguments.ok()) {
    std::cerr << arguments.status().message() << '\n';
    return 2;
  }
  if (arguments->is_help) {
    std::cout << kvferry::bench::kUsage;
    return 0;
  }
  const kvferry::Status status = kvferry::bench::RunBench(*arguments);
  if (!status.ok()) {
    std::cerr << status.ToString() << '\n';
    return 1;
  }
  return 0;
}
