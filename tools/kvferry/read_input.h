// ReadInput: reads the traces a command was given, with a progress bar where one can be seen.
#pragma once

#include <span>
#include <string>

#include "kvferry/status.h"

#include "replay/read_trace.h"
#include "replay/trace.h"

namespace kvferry::tool {

Result<replay::Trace> ReadInput(const replay::ReadOptions& options, bool is_quiet);

// Notes (skipped lines, drawn starts, unsorted times), one a line, to stderr.
void PrintNotes(std::span<const std::string> notes);

}  // namespace kvferry::tool
