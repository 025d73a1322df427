// Numbers as people read them, and tables of them in plain text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvferry::replay {

// "12,031".
std::string FormatCount(std::uint64_t count);
std::string FormatSignedCount(std::int64_t count);
// "1 block" or "12,031 blocks".
std::string FormatCounted(std::uint64_t count, std::string_view one, std::string_view many);
// "37.36%" of a ratio, two decimals.
std::string FormatPercent(double ratio);
// `value` with that many decimals.
std::string FormatDecimal(double value, int decimals);
// One decimal, in the largest unit that keeps the number readable: "54.0 s" below two minutes,
// "4.4 min" below two hours, "120.0 h" below ten days, "10.2 d".
std::string FormatDuration(std::uint64_t duration_ms);

// Rows of cells in columns, two spaces apart: the first column to the left, the others to the
// right.
//
// Thread-compatible.
class TextTable {
 public:
  // `indent` spaces stand before each row.
  explicit TextTable(std::size_t indent) : indent_(indent) {}

  // Rows may have fewer cells than others.
  void AddRow(std::vector<std::string> cells);
  // A row of its own across the columns; an empty one is a rule.
  void AddHeading(std::string text);

  // Lines without blanks at their ends.
  std::string ToString() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string heading;
  };

  std::size_t indent_;
  std::vector<Row> rows_;
};

// `text` in lines of at most `width` columns broken at blanks, each behind `indent` spaces but the
// first, which goes where the caller stands. A longer word has a line of its own.
std::string WrapText(const std::string& text, std::size_t indent, std::size_t width);

}  // namespace kvferry::replay
