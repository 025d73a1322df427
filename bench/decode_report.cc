// What `bench decode` prints, and when it has failed.
#include "bench/decode_report.h"

#include <algorithm>
#include <iomanip>
#include <ios>

#include "base/assert.h"

namespace kvferry::bench {

double DecodeReport::ValueOf(std::string_view name) const {
  const auto found = std::find_if(results.begin(), results.end(),
                                  [&](const BenchResult& result) { return result.name == name; });
  KVFERRY_CHECK(found != results.end());
  return found->value;
}

Status DecodeReport::Verdict() const {
  if (sha256_resident != sha256_staged) {
    return Status::Error(StatusCode::kDataLoss,
                         "attention over staged blocks has made other outputs than over resident "
                         "ones: " +
                             sha256_staged + " instead of " + sha256_resident);
  }
  const auto error = std::find_if(results.begin(), results.end(), [](const BenchResult& result) {
    return result.name == "max_relative_error";
  });
  KVFERRY_CHECK(error != results.end());
  if (!(error->value <= error->bound_value)) {
    return Status::Error(StatusCode::kDataLoss, "outputs deviate from double precision by " +
                                                    std::to_string(error->value) +
                                                    " of a row's largest, more than " +
                                                    std::to_string(error->bound_value));
  }
  return Status::Ok();
}

void PrintTable(std::ostream& out, const DecodeReport& report) {
  out << report.device << "; " << report.model << "; " << report.sizes << '\n';
  for (const std::string& note : report.notes) {
    out << "note: " << note << '\n';
  }
  std::size_t width = 4;
  for (const BenchResult& result : report.results) {
    width = std::max(width, result.name.size());
  }
  out << std::left << std::setw(static_cast<int>(width)) << "case" << std::right << std::setw(14)
      << "value"
      << "  unit\n";
  const std::ios::fmtflags flags = out.flags();
  for (const BenchResult& result : report.results) {
    out << std::left << std::setw(static_cast<int>(width)) << result.name << std::right
        << std::setw(14) << std::defaultfloat << std::setprecision(result.unit == "bytes" ? 15 : 4)
        << result.value << "  " << result.unit;
    if (!result.bound.empty()) {
      out << ", against " << std::setprecision(4) << result.bound_value << ", " << result.bound;
    }
    out << '\n';
  }
  out.flags(flags);
  out << "output_sha256 " << report.sha256_resident << " resident\n"
      << "              " << report.sha256_staged << " staged\n";
}

void PrintJson(std::ostream& out, const DecodeReport& report) {
  out << "{\"bench\": \"decode\", \"machine\": ";
  PrintMachine(out);
  out << ", \"device\": ";
  PrintJsonText(out, report.device);
  out << ", \"model\": ";
  PrintJsonText(out, report.model);
  out << ", \"sizes\": ";
  PrintJsonText(out, report.sizes);
  out << ", \"notes\": [";
  std::string_view separator;
  for (const std::string& note : report.notes) {
    out << separator;
    PrintJsonText(out, note);
    separator = ", ";
  }
  out << "],\n\"output_sha256\": {\"resident\": ";
  PrintJsonText(out, report.sha256_resident);
  out << ", \"staged\": ";
  PrintJsonText(out, report.sha256_staged);
  out << "},\n\"results\": ";
  PrintJsonResults(out, report.results);
  out << "}\n";
}

}  // namespace kvferry::bench
