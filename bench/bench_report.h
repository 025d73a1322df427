// BenchReport: the results of one benchmark as a table for people or one JSON object.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace kvferry::bench {

// One measured case and what it is measured against in the same run.
struct BenchResult {
  std::string name;
  std::uint64_t block_bytes = 0;  // 0: the case has no size.
  double value = 0;
  std::string unit;
  std::string bound;  // Empty: nothing to compare with.
  double bound_value = 0;
  std::uint64_t checksum = 0;  // Of the work done, so that it cannot be optimised away or rot.
};

// Columns: case, value, bound, ratio, checksum.
void PrintTable(std::ostream& out, const std::vector<BenchResult>& results);

// {"bench", "machine": {"cpu", "cores", "kernel"}, "results": [{"case", "block_bytes" where it has
// them, "value", "unit", "bound", "bound_value", "ratio", "checksum"}]}
void PrintJson(std::ostream& out, std::string_view bench, const std::vector<BenchResult>& results);

// The list alone, and a text in quotes, for reports that have more.
void PrintJsonResults(std::ostream& out, const std::vector<BenchResult>& results);
void PrintJsonText(std::ostream& out, std::string_view text);

// {"cpu", "cores", "kernel"}, as PrintJson has it.
void PrintMachine(std::ostream& out);

// "AMD EPYC, 2 cores, Linux 6.1.0".
std::string DescribeMachine();

// The calling thread's processor time, which a busy machine stretches less than wall time.
double ThreadSeconds();
// The same of all threads together.
double ProcessSeconds();

double Median(std::vector<double> values);

}  // namespace kvferry::bench
