// Files are the same if the system says so, by device and number, not if their names look alike.
#include "output_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/file.h"

namespace kvferry::tool {
namespace {

struct FileIdentity {
  dev_t device;
  ino_t number;
  bool operator==(const FileIdentity&) const = default;
};

// Nothing where there is no regular file: a terminal or a pipe is not destroyed by being written.
std::optional<FileIdentity> IdentityOf(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  return FileIdentity{status.st_dev, status.st_ino};
}

std::optional<FileIdentity> IdentityAt(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? IdentityOf(status) : std::nullopt;
}

std::optional<FileIdentity> IdentityOfDescriptor(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 ? IdentityOf(status) : std::nullopt;
}

// The name of the input that the file is; empty if it is none.
std::string FindInput(const FileIdentity& file, const InputPaths& inputs) {
  for (const std::string& path : inputs) {
    if (path == "-") {
      if (IdentityOfDescriptor(STDIN_FILENO) == file) {
        return "standard input";
      }
      continue;
    }
    if (IdentityAt(path) == file) {
      return path;
    }
    std::error_code error;
    std::filesystem::directory_iterator entry(path, error);
    while (!error && entry != std::filesystem::directory_iterator()) {
      if (IdentityAt(entry->path().string()) == file) {
        return entry->path().string();
      }
      entry.increment(error);
    }
  }
  return {};
}

}  // namespace

Status CheckOutput(std::string_view option, const std::string& path, const InputPaths& inputs) {
  if (const std::optional<FileIdentity> file = IdentityAt(path)) {
    if (const std::string input = FindInput(*file, inputs); !input.empty()) {
      return Status::Error(StatusCode::kInvalidArgument,
                           std::string(option) + " '" + path + "' is the input " + input +
                               " itself and would replace it: name another file");
    }
  }
  return CheckFileCanBeWritten(path).WithContext(option);
}

Status CheckStandardOutput(const InputPaths& inputs) {
  if (const std::optional<FileIdentity> file = IdentityOfDescriptor(STDOUT_FILENO)) {
    if (const std::string input = FindInput(*file, inputs); !input.empty()) {
      return Status::Error(StatusCode::kInvalidArgument,
                           "standard output is the input " + input +
                               " itself and would overwrite it: send it to another file");
    }
  }
  return Status::Ok();
}

}  // namespace kvferry::tool
