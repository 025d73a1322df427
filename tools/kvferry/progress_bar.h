// ProgressBar: one line on a terminal with share, rate and time left; nothing anywhere else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace kvferry::tool {

struct ProgressOptions {
  std::string label;        // "reading trace.jsonl.zst"
  std::string unit;         // "B" prints sizes; anything else is printed after the number.
  std::uint64_t total = 0;  // 0: unknown, so no share and no time left.
  bool is_shown = false;    // False: the bar paints nothing and starts no thread.
};

// Whether stderr is a terminal that can show a line that changes.
bool IsProgressTerminal();

// Paints to stderr from a thread of its own, so that the work only has to count; wiped at the end.
//
// done() is thread-safe; construction and destruction are the owner's.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressOptions options);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  // Units done so far: the work adds to it or sets it.
  std::atomic<std::uint64_t>& done() { return done_; }

 private:
  void Paint();

  ProgressOptions options_;
  std::atomic<std::uint64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool is_stopping_ = false;
  std::thread painter_;
};

// The line without its control characters: "label  37 %  12.3 M/s  4 s left". Pure, for the tests.
std::string ProgressLine(const ProgressOptions& options, std::uint64_t done, double elapsed_s);

}  // namespace kvferry::tool
