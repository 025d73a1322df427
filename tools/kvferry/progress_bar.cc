// The painter thread and the text of the bar.
#include "progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/bytes.h"

namespace kvferry::tool {
namespace {

constexpr auto kRepaint = std::chrono::milliseconds(100);
constexpr int kBarCells = 20;

std::string Amount(double amount, const std::string& unit) {
  if (unit == "B") {
    return FormatBytes(static_cast<std::uint64_t>(amount));
  }
  static constexpr std::array<const char*, 4> kScales = {"", " k", " M", " G"};
  std::size_t scale = 0;
  while (amount >= 1000 && scale + 1 < kScales.size()) {
    amount /= 1000;
    ++scale;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g%s", amount, kScales[scale]);
  return std::string(text.data()) + " " + unit;
}

std::string Seconds(double seconds) {
  std::array<char, 32> text{};
  if (seconds < 120) {
    std::snprintf(text.data(), text.size(), "%.0f s", seconds);
  } else {
    std::snprintf(text.data(), text.size(), "%.0f min", seconds / 60);
  }
  return text.data();
}

}  // namespace

bool IsProgressTerminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

std::string ProgressLine(const ProgressOptions& options, std::uint64_t done, double elapsed_s) {
  const auto amount = static_cast<double>(done);
  const double rate = elapsed_s > 0 ? amount / elapsed_s : 0;
  std::string line = options.label + "  ";
  if (options.total > 0) {
    const double share = std::min(1.0, amount / static_cast<double>(options.total));
    const auto filled = static_cast<std::size_t>(share * kBarCells);
    line.append(1, '[').append(filled, '#').append(kBarCells - filled, '.').append("] ");
    line.append(std::to_string(static_cast<int>(share * 100))).append(" %  ");
    line.append(Amount(rate, options.unit)).append("/s");
    if (rate > 0) {
      const double left = std::max(0.0, static_cast<double>(options.total) - amount);
      line.append("  ").append(Seconds(left / rate)).append(" left");
    }
    return line;
  }
  return line + Amount(amount, options.unit) + "  " + Amount(rate, options.unit) + "/s";
}

ProgressBar::ProgressBar(ProgressOptions options) : options_(std::move(options)) {
  if (options_.is_shown) {
    painter_ = std::thread([this] { Paint(); });
  }
}

ProgressBar::~ProgressBar() {
  if (!painter_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stop_changed_.notify_one();
  painter_.join();
}

void ProgressBar::Paint() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_changed_.wait_for(lock, kRepaint, [this] { return is_stopping_; })) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::fprintf(stderr, "\r\033[K%s",
                 ProgressLine(options_, done_.load(), elapsed.count()).c_str());
    std::fflush(stderr);
  }
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace kvferry::tool
