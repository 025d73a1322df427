// Tables, JSON and what is known of the machine.
#include "bench/bench_report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <thread>

#include "base/bytes.h"

namespace kvferry::bench {
namespace {

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::string KernelName() {
  utsname names{};
  if (uname(&names) != 0) {
    return "unknown";
  }
  return std::string(names.sysname).append(1, ' ').append(names.release);
}

double RatioOf(const BenchResult& result) {
  return result.bound_value > 0 ? result.value / result.bound_value : 0;
}

std::string LabelOf(const BenchResult& result) {
  return result.block_bytes == 0 ? result.name
                                 : result.name + ", " + FormatBytes(result.block_bytes);
}

double SecondsOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

void PrintJsonText(std::ostream& out, std::string_view text) {
  out << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out << ' ';
    } else {
      out << c;
    }
  }
  out << '"';
}

void PrintTable(std::ostream& out, const std::vector<BenchResult>& results) {
  std::size_t width = 4;
  for (const BenchResult& result : results) {
    width = std::max(width, LabelOf(result).size());
  }
  out << std::left << std::setw(static_cast<int>(width)) << "case" << std::right << std::setw(12)
      << "value"
      << "  unit       " << std::setw(12) << "bound" << std::setw(8) << "ratio" << std::setw(14)
      << "checksum" << '\n';
  for (const BenchResult& result : results) {
    out << std::left << std::setw(static_cast<int>(width)) << LabelOf(result) << std::right
        << std::fixed << std::setprecision(1) << std::setw(12) << result.value << "  " << std::left
        << std::setw(11) << result.unit << std::right << std::setw(12) << result.bound_value
        << std::setprecision(3) << std::setw(8) << RatioOf(result) << std::setw(14)
        << result.checksum;
    out << (result.bound.empty() ? "" : "  against ") << result.bound << '\n';
  }
}

void PrintJson(std::ostream& out, std::string_view bench, const std::vector<BenchResult>& results) {
  out << "{\"bench\": ";
  PrintJsonText(out, bench);
  out << ", \"machine\": ";
  PrintMachine(out);
  out << ", \"results\": ";
  PrintJsonResults(out, results);
  out << "}\n";
}

void PrintJsonResults(std::ostream& out, const std::vector<BenchResult>& results) {
  out << '[';
  std::string_view separator;
  for (const BenchResult& result : results) {
    out << separator << "\n{\"case\": ";
    PrintJsonText(out, result.name);
    if (result.block_bytes > 0) {
      out << ", \"block_bytes\": " << result.block_bytes;
    }
    out << ", \"value\": " << std::setprecision(result.unit == "bytes" ? 15 : 6) << result.value
        << std::setprecision(6) << ", \"unit\": ";
    PrintJsonText(out, result.unit);
    out << ", \"bound\": ";
    PrintJsonText(out, result.bound);
    out << ", \"bound_value\": " << result.bound_value << ", \"ratio\": " << RatioOf(result)
        << ", \"checksum\": " << result.checksum << '}';
    separator = ",";
  }
  out << ']';
}

void PrintMachine(std::ostream& out) {
  out << "{\"cpu\": ";
  PrintJsonText(out, CpuName());
  out << ", \"cores\": " << std::thread::hardware_concurrency() << ", \"kernel\": ";
  PrintJsonText(out, KernelName());
  out << '}';
}

std::string DescribeMachine() {
  return CpuName()
      .append(", ")
      .append(std::to_string(std::thread::hardware_concurrency()))
      .append(" cores, ")
      .append(KernelName());
}

double ThreadSeconds() {
  return SecondsOf(CLOCK_THREAD_CPUTIME_ID);
}

double ProcessSeconds() {
  return SecondsOf(CLOCK_PROCESS_CPUTIME_ID);
}

double Median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace kvferry::bench
