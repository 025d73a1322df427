// The table and the JSON of `bench nvme`.
#include "bench/nvme_report.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "bench/bench_report.h"
#include "bench/slice_pairs.h"

namespace kvferry::bench {
namespace {

struct Column {
  std::string_view name;
  int width;
  int digits;
  double NvmeBenchResult::*value;
};
constexpr std::array<Column, 9> kColumns = {{
    {"GB/s", 8, 2, &NvmeBenchResult::gbps},
    {"bound", 8, 2, &NvmeBenchResult::bound_gbps},
    {"ratio", 8, 3, &NvmeBenchResult::ratio},
    {"p50 us", 9, 0, &NvmeBenchResult::p50_us},
    {"p99 us", 9, 0, &NvmeBenchResult::p99_us},
    {"CPU us/MiB", 12, 1, &NvmeBenchResult::cpu_us_per_mib},
    {"bound's", 9, 1, &NvmeBenchResult::bound_cpu_us_per_mib},
    {"checksum", 10, 1, &NvmeBenchResult::hash_us_per_mib},
    {"written", 9, 2, &NvmeBenchResult::write_gbps},
}};

constexpr std::array<std::pair<std::string_view, double NvmeBenchResult::*>, 9> kNumbers = {{
    {"gbps", &NvmeBenchResult::gbps},
    {"bound_gbps", &NvmeBenchResult::bound_gbps},
    {"ratio", &NvmeBenchResult::ratio},
    {"p50_us", &NvmeBenchResult::p50_us},
    {"p99_us", &NvmeBenchResult::p99_us},
    {"cpu_us_per_mib", &NvmeBenchResult::cpu_us_per_mib},
    {"bound_cpu_us_per_mib", &NvmeBenchResult::bound_cpu_us_per_mib},
    {"hash_us_per_mib", &NvmeBenchResult::hash_us_per_mib},
    {"write_gbps", &NvmeBenchResult::write_gbps},
}};

std::string LabelOf(const NvmeBenchResult& result) {
  return result.name + ", " + FormatBytes(result.block_bytes);
}

}  // namespace

void PrintTable(std::ostream& out, const NvmeBenchReport& report) {
  std::size_t width = 4;
  std::size_t pairs_min = kPairsWanted;
  for (const NvmeBenchResult& result : report.cases) {
    width = std::max(width, LabelOf(result).size());
    pairs_min = std::min(pairs_min, result.pairs);
  }
  out << std::left << std::setw(static_cast<int>(width)) << "case" << std::right;
  for (const Column& column : kColumns) {
    out << std::setw(column.width) << column.name;
  }
  out << std::setw(7) << "pairs" << '\n';
  for (const NvmeBenchResult& result : report.cases) {
    out << std::left << std::setw(static_cast<int>(width)) << LabelOf(result) << std::right
        << std::fixed;
    for (const Column& column : kColumns) {
      out << std::setprecision(column.digits) << std::setw(column.width) << result.*column.value;
    }
    out << std::setw(7) << result.pairs << '\n';
  }
  for (const NvmeBenchResult& result : report.cases) {
    if (result.blocks_skipped > 0) {
      out << LabelOf(result) << ": " << result.blocks_skipped
          << " blocks left host memory before they were written down.\n";
    }
  }
  if (pairs_min < kPairsWanted) {
    out << "Only " << pairs_min << " pairs of slices for some: below " << kPairsWanted
        << " a ratio may differ much from run to run; give more --seconds.\n";
  }
}

void PrintJson(std::ostream& out, const NvmeBenchReport& report) {
  out << "{\"bench\": \"nvme\", \"machine\": ";
  PrintMachine(out);
  out << ", \"io\": \"" << report.io << "\", \"store_bytes\": " << report.store_bytes
      << ", \"host_bytes\": " << report.host_bytes
      << ", \"request_bytes\": " << report.request_bytes << ", \"cases\": [";
  std::string_view separator;
  for (const NvmeBenchResult& result : report.cases) {
    out << separator << "\n{\"name\": \"" << result.name
        << "\", \"block_bytes\": " << result.block_bytes << ", \"pairs\": " << result.pairs
        << std::defaultfloat << std::setprecision(6);
    for (const auto& [name, value] : kNumbers) {
      out << ", \"" << name << "\": " << result.*value;
    }
    out << ", \"blocks_skipped\": " << result.blocks_skipped << '}';
    separator = ",";
  }
  out << "]}\n";
}

}  // namespace kvferry::bench
