// DecodeReport: the results of `bench decode` as a table for people or one JSON object.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "bench/bench_report.h"

namespace kvferry::bench {

struct DecodeReport {
  std::string device;
  std::string model;
  std::string sizes;               // One line for people: sessions, blocks, turns.
  std::vector<std::string> notes;  // What must be known to read the figures.
  std::string sha256_resident;
  std::string sha256_staged;
  std::vector<BenchResult> results;

  // The value of a case; it must be there.
  double ValueOf(std::string_view name) const;
  // kDataLoss where the runs have not made the same outputs, or not what double precision makes.
  Status Verdict() const;
};

void PrintTable(std::ostream& out, const DecodeReport& report);

// {"bench": "decode", "machine", "device", "model", "sizes", "notes": [...], "output_sha256":
// {"resident", "staged"}, "results": as bench::PrintJson has them}
void PrintJson(std::ostream& out, const DecodeReport& report);

}  // namespace kvferry::bench
