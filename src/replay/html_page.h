// WriteHtmlPage: the JSON of a replay as one self-contained HTML page, drawn by a script.
#pragma once

#include <string>
#include <vector>

#include "kvferry/status.h"

namespace kvferry::replay {

// The page's script and the Python interpreters that may run it, tried in this order until one can
// import matplotlib. A name without a slash is looked for in PATH. The distribution's own comes
// first: its package is the one the remedy names.
struct PageScript {
  std::string path;
  std::vector<std::string> interpreters = {"/usr/bin/python3", "/usr/local/bin/python3", "python3"};
};

// Whether WriteHtmlPage could draw, for asking before a long run: the script is there and some
// interpreter imports matplotlib. kInvalidArgument naming the script or each interpreter tried with
// its reason, and the remedy.
//
// Thread-safe.
Status CheckHtmlPossible(const PageScript& script);
Status CheckHtmlPossible(const std::string& script_path);

// Draws `json`, which `kvferry replay --json` prints, and puts the page at `output_path` whole or
// not at all (WriteFileAtomically). Errors as of CheckHtmlPossible; kInternal with the script's own
// words when it refuses the JSON or fails; kIoError when the page cannot be written.
//
// Thread-safe for different output paths.
Status WriteHtmlPage(const std::string& json,
                     const PageScript& script,
                     const std::string& output_path);
Status WriteHtmlPage(const std::string& json,
                     const std::string& script_path,
                     const std::string& output_path);

}  // namespace kvferry::replay
