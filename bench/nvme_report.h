// NvmeBenchReport: the results of `bench nvme` as a table for people or one JSON object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace kvferry::bench {

// One case at one size of blocks beside its bound in the same run.
struct NvmeBenchResult {
  std::string name;
  std::uint64_t block_bytes = 0;
  std::size_t pairs = 0;  // Of slices that the medians are of.
  double gbps = 0;
  double bound_gbps = 0;
  double ratio = 0;  // Median of the pairs' ratios.
  // Of requests through the engine, some MiB each; of single reads for mixed_unlimited, where no
  // engine is.
  double p50_us = 0;
  double p99_us = 0;
  double cpu_us_per_mib = 0;
  double bound_cpu_us_per_mib = 0;
  double hash_us_per_mib = 0;        // What the checksum of cold blocks takes of the first.
  double write_gbps = 0;             // Of what is written beside the reads; 0 for the others.
  std::uint64_t blocks_skipped = 0;  // That left host memory before they were written.
};

struct NvmeBenchReport {
  std::string io;  // Of the bound: "io_uring" or "threads".
  std::uint64_t store_bytes = 0;
  std::uint64_t host_bytes = 0;
  std::uint64_t request_bytes = 0;
  std::vector<NvmeBenchResult> cases;
};

// A line a case; below them what was skipped, and whether there are fewer pairs than make a median.
void PrintTable(std::ostream& out, const NvmeBenchReport& report);

// {"bench": "nvme", "machine": {...}, "io", "store_bytes", "host_bytes", "request_bytes", "cases":
// [{"name" and the other members of NvmeBenchResult, by their names}]}
void PrintJson(std::ostream& out, const NvmeBenchReport& report);

}  // namespace kvferry::bench
