// CheckOutput: an output that would destroy an input, or could not be written, before any work.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

namespace kvferry::tool {

// What a command reads: files, folders (their files count) and "-" for standard input. Those that
// are not there are left to the reader to report.
using InputPaths = std::vector<std::string>;

// Whether `path`, given by `option`, may be written: it is none of the inputs, by whatever name,
// link or hard link, and its folder takes files. kInvalidArgument naming the option, both files and
// the remedy.
Status CheckOutput(std::string_view option, const std::string& path, const InputPaths& inputs);

// The same for standard output where it is a file.
Status CheckStandardOutput(const InputPaths& inputs);

}  // namespace kvferry::tool
