// The report's cells as comma-separated values.
#include <array>
#include <charconv>
#include <cstddef>

#include "replay/report.h"

namespace kvferry::replay {
namespace {

constexpr std::string_view kHeader =
    "trace,hit_rule,policy,capacity_blocks,capacity_share,capacity_bytes,lookups,lookup_tokens,"
    "hit_blocks,hit_tokens,hit_tokens_full_blocks,requests_with_hit,evictions,rejected,"
    "resident_misses,block_ratio,token_ratio,gap_closed,prefill_seconds_saved,seconds";

// One row; values that need it are quoted.
class CsvRow {
 public:
  void Add(std::string_view text) {
    Separate();
    if (text.find_first_of("\",\r\n") == std::string_view::npos) {
      line_ += text;
      return;
    }
    line_ += '"';
    for (const char character : text) {
      line_.append(character == '"' ? 2 : 1, character);
    }
    line_ += '"';
  }
  void Add(std::uint64_t number) { Add(std::to_string(number)); }
  void Add(double number) {
    // The shortest text that reads back to the same number, whatever the locale.
    std::array<char, 64> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
    Add(std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
  }
  template <class T>
  void Add(const std::optional<T>& number) {
    if (number.has_value()) {
      Add(*number);
    } else {
      Add(std::string_view());
    }
  }

  std::string Line() const { return line_ + "\r\n"; }

 private:
  void Separate() {
    if (!is_first_) {
      line_ += ',';
    }
    is_first_ = false;
  }

  std::string line_;
  bool is_first_ = true;
};

}  // namespace

std::string ToCsv(const ReplayReport& report) {
  std::string text = std::string(kHeader) + "\r\n";
  for (const CellResult& cell : report.results) {
    const CellFigures figures = DeriveFigures(report, cell);
    CsvRow row;
    row.Add(report.origin.name);
    row.Add(ToString(report.hit_rule));
    row.Add(cell.policy);
    row.Add(cell.capacity_blocks);
    row.Add(figures.capacity_share);
    row.Add(figures.capacity_bytes);
    row.Add(cell.lookups);
    row.Add(cell.lookup_tokens);
    row.Add(cell.hit_blocks);
    row.Add(cell.hit_tokens);
    row.Add(cell.hit_tokens_full_blocks);
    row.Add(cell.requests_with_hit);
    row.Add(cell.evictions);
    row.Add(cell.rejected);
    row.Add(cell.resident_misses);
    row.Add(figures.block_ratio);
    row.Add(figures.token_ratio);
    row.Add(figures.gap_closed);
    row.Add(figures.prefill_seconds_saved);
    row.Add(cell.seconds);
    text += row.Line();
  }
  return text;
}

}  // namespace kvferry::replay
