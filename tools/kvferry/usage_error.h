// What a command line that cannot be read is told.
#pragma once

#include <CLI/CLI.hpp>

namespace kvferry::tool {

// Says on standard error what is wrong, and which --help to read: that of the innermost command
// that the line names. Returns kExitUsage. `app` is the root, after the parse that threw `error`.
int ReportUsageError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace kvferry::tool
