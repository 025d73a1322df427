// Formatting of counts, ratios and durations; alignment of tables.
#include "replay/text_format.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

namespace kvferry::replay {
namespace {

constexpr std::string_view kColumnGap = "  ";

// Columns that a terminal gives to `text`: bytes that go on a character do not count.
std::size_t CountColumns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

std::string Pad(const std::string& text, std::size_t width, bool to_the_right) {
  const std::size_t columns = CountColumns(text);
  const std::string blanks(width > columns ? width - columns : 0, ' ');
  return to_the_right ? blanks + text : text + blanks;
}

}  // namespace

std::string FormatCount(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t i = text.size(); i > 3;) {
    i -= 3;
    text.insert(i, 1, ',');
  }
  return text;
}

std::string FormatSignedCount(std::int64_t count) {
  if (count >= 0) {
    return FormatCount(static_cast<std::uint64_t>(count));
  }
  return "-" + FormatCount(0 - static_cast<std::uint64_t>(count));
}

std::string FormatCounted(std::uint64_t count, std::string_view one, std::string_view many) {
  return FormatCount(count).append(" ").append(count == 1 ? one : many);
}

std::string FormatPercent(double ratio) {
  return FormatDecimal(ratio * 100, 2) + "%";
}

std::string FormatDecimal(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string FormatDuration(std::uint64_t duration_ms) {
  const double seconds = static_cast<double>(duration_ms) / 1000;
  if (seconds < 120) {
    return FormatDecimal(seconds, 1) + " s";
  }
  const double minutes = seconds / 60;
  if (minutes < 120) {
    return FormatDecimal(minutes, 1) + " min";
  }
  const double hours = minutes / 60;
  if (hours < 240) {
    return FormatDecimal(hours, 1) + " h";
  }
  return FormatDecimal(hours / 24, 1) + " d";
}

void TextTable::AddRow(std::vector<std::string> cells) {
  rows_.push_back({std::move(cells), {}});
}

void TextTable::AddHeading(std::string text) {
  rows_.push_back({{}, std::move(text)});
}

std::string TextTable::ToString() const {
  std::vector<std::size_t> widths;
  for (const Row& row : rows_) {
    widths.resize(std::max(widths.size(), row.cells.size()));
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      widths[i] = std::max(widths[i], CountColumns(row.cells[i]));
    }
  }
  std::size_t total = 0;
  for (const std::size_t width : widths) {
    total += width + kColumnGap.size();
  }
  std::string text;
  for (const Row& row : rows_) {
    std::string line(indent_, ' ');
    if (row.cells.empty()) {
      line += row.heading;
      if (row.heading.empty() && total > 0) {
        line.append(total - kColumnGap.size(), '-');
      }
    }
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      line += Pad(row.cells[i], widths[i], i > 0);
      line += kColumnGap;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string WrapText(const std::string& text, std::size_t indent, std::size_t width) {
  std::string wrapped;
  std::size_t column = indent;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const bool is_first = wrapped.empty();
    if (!is_first && column + 1 + CountColumns(word) > width) {
      wrapped += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      wrapped += " ";
      ++column;
    }
    wrapped += word;
    column += CountColumns(word);
    begin = end + 1;
  }
  return wrapped;
}

}  // namespace kvferry::replay
