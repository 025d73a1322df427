// FileDescriptor, and files that are written whole or not at all.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvferry/status.h"

namespace kvferry {

// Owns one descriptor of the process; -1 when empty.
//
// Thread-compatible.
class FileDescriptor {
 public:
  FileDescriptor() noexcept = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  int fd() const noexcept { return fd_; }
  bool is_open() const noexcept { return fd_ >= 0; }
  // Gives the descriptor away; empty afterwards.
  int Release() noexcept { return std::exchange(fd_, -1); }
  // Closes now and says what the system thinks of it; 0 or errno. Empty afterwards in any case.
  int Close() noexcept;

 private:
  int fd_ = -1;
};

// Replaces the content of `path` by `text`: readers see the old file or the whole new one. The text
// goes to a temporary file in the same folder first, which is removed on failure. Links are
// followed, an existing file keeps its mode; what is no regular file (a terminal, a pipe,
// /dev/null) cannot be replaced and is written to directly. kIoError naming the path.
//
// Thread-safe for different paths.
Status WriteFileAtomically(const std::string& path, std::string_view text);

class RemoveOnSignal;

// The same for a content that comes piece by piece: what is written to stream() becomes the file by
// Commit, and leaves nothing behind without one, also when TERM, INT or HUP ends the process. One
// at a time in a process.
//
// Thread-compatible.
class AtomicFile {
 public:
  // kIoError naming the path.
  static Result<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Borrowed until Commit.
  std::FILE* stream() const noexcept { return stream_.get(); }
  // Closes the stream and puts the file at its place. kIoError naming the path given to Create; the
  // place is as it was before then. Once only.
  Status Commit();

 private:
  struct Close {
    void operator()(std::FILE* stream) const noexcept { std::fclose(stream); }
  };

  AtomicFile() noexcept;

  std::string path_;            // As given.
  std::string target_path_;     // Behind links.
  std::string temporary_path_;  // Empty where the file is written to directly, and after Commit.
  std::optional<unsigned> mode_;
  std::unique_ptr<std::FILE, Close> stream_;
  std::unique_ptr<RemoveOnSignal> removal_;
};

// Whether WriteFileAtomically could start: the folder exists and takes new files, the path is no
// folder. For asking before a long run; leaves nothing behind. kInvalidArgument naming the path.
Status CheckFileCanBeWritten(const std::string& path);

// The number by which the system tells the file system that the path is on from others that are
// mounted; 0 where nothing is there.
std::uint64_t FileSystemOf(const std::string& path);

}  // namespace kvferry
