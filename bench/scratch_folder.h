// ScratchFolder: a folder for the files of one run, which nothing leaves behind.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "kvferry/status.h"

#include "base/file.h"

namespace kvferry::bench {

// It goes with all that is in it when the object does; and when the process ends without that, by a
// signal or a crash, by a child process that waits for it. (A handler could remove a file, but not
// a folder that a database is writing to.)
//
// Made while the process has one thread, which the child is a copy of. Thread-compatible.
class ScratchFolder {
  struct Token {};  // Only Make can name it.

 public:
  // Makes `parent`/kvferry-bench-XXXXXX, for its owner only. kInvalidArgument, errno attached,
  // where `parent` is no folder that takes one; kResourceExhausted without a child to be had.
  static Result<std::unique_ptr<ScratchFolder>> Make(const std::string& parent);

  explicit ScratchFolder(Token /*token*/) {}
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  const std::string& path() const noexcept { return path_; }

 private:
  Status StartChild();

  std::string path_;
  FileDescriptor alive_;  // Its other end tells the child when nobody has it any more.
  pid_t child_ = -1;
};

}  // namespace kvferry::bench
