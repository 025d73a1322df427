// RunChild: another program, its standard input fed and its output collected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

namespace kvferry {

// A program started without a shell. A name without a slash is looked for in PATH; the environment
// and the working folder are the caller's.
struct ChildCommand {
  std::vector<std::string> arguments;  // The first one names the program.
  std::string_view input;              // Borrowed until RunChild returns.
  std::size_t output_bytes_max = std::size_t{16} << 20;
  std::uint32_t timeout_ms = 120'000;
};

struct ChildOutcome {
  int exit_code = 0;  // Meaningless after a signal.
  int signal = 0;     // 0: the program ended by itself.
  std::string output;
  std::string error_output;  // The first 64 KiB of standard error.
};

// Runs the program to its end. How it ended is a value; errors are: it could not be started
// (kInvalidArgument, errno attached), it said too much (kResourceExhausted), it took too long
// (kDeadlineExceeded), the system failed (kIoError). In each case the program is gone when this
// returns, and no zombie stays. A program that does not read its input is no error, and the caller
// gets no SIGPIPE.
//
// Thread-safe.
Result<ChildOutcome> RunChild(const ChildCommand& command);

}  // namespace kvferry
