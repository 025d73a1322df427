// Reading with a bar that follows the bytes of the files as given.
#include "read_input.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "progress_bar.h"

namespace kvferry::tool {
namespace {

// Bytes of all files; 0 if one of them has no size (standard input, a pipe).
std::uint64_t TotalBytes(const std::vector<std::string>& paths) {
  std::uint64_t total = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(path, error);
    if (error) {
      return 0;
    }
    total += bytes;
  }
  return total;
}

}  // namespace

Result<replay::Trace> ReadInput(const replay::ReadOptions& options, bool is_quiet) {
  const std::string label =
      options.paths.size() == 1
          ? "reading " + std::filesystem::path(options.paths.front()).filename().string()
          : "reading " + std::to_string(options.paths.size()) + " traces";
  ProgressBar bar({.label = label,
                   .unit = "B",
                   .total = TotalBytes(options.paths),
                   .is_shown = !is_quiet && IsProgressTerminal()});
  return replay::ReadTrace(options, [&](const replay::ReadProgress& progress) {
    bar.done().store(progress.bytes_read);
  });
}

void PrintNotes(std::span<const std::string> notes) {
  for (const std::string& note : notes) {
    std::fprintf(stderr, "kvferry: note: %s\n", note.c_str());
  }
}

}  // namespace kvferry::tool
