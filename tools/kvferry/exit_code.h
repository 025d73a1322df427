// How a command ends: exit codes, and the one place that turns a Status into one.
#pragma once

#include <string>

#include "kvferry/status.h"

namespace kvferry::tool {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// Prints "kvferry: reason" to stderr and returns kExitUsage for kInvalidArgument, kExitFailure for
// the rest; kExitOk, silently, for Ok.
int ReportStatus(const Status& status);

// Writes `text` to standard output. A reader that went away ends the command quietly: the exit code
// is kExitOk then; any other failure (a full disk) is reported and gives kExitFailure.
int PrintOutput(const std::string& text);

}  // namespace kvferry::tool
