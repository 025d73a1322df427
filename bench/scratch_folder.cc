// The folder, and the child that outlives its maker just long enough to remove it.
#include "bench/scratch_folder.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/remove_on_signal.h"

namespace kvferry::bench {
namespace {

void RemoveAll(const std::string& path) {
  std::error_code ignored;  // What cannot be removed stays; nobody is there to be told.
  std::filesystem::remove_all(path, ignored);
}

// The child's life: it has the signals held back, as its maker had when it was made.
[[noreturn]] void AwaitTheEnd(int alive, const std::string& path) {
  char byte = 0;
  while (::read(alive, &byte, 1) < 0 && errno == EINTR) {
  }
  RemoveAll(path);
  ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<ScratchFolder>> ScratchFolder::Make(const std::string& parent) {
  auto folder = std::make_unique<ScratchFolder>(Token());
  std::string name = (parent.empty() ? "." : parent) + "/kvferry-bench-XXXXXX";
  // From the folder's making on, whoever ends the process ends it with a child that knows.
  const SignalsHeldBack held_back;
  if (::mkdtemp(name.data()) == nullptr) {
    return Status::Error(StatusCode::kInvalidArgument, "make a folder in '" + parent + "'", errno);
  }
  folder->path_ = name;
  KVFERRY_RETURN_IF_ERROR(folder->StartChild());
  return folder;
}

Status ScratchFolder::StartChild() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Status::Error(StatusCode::kResourceExhausted, "make a pipe", errno);
  }
  FileDescriptor read_end(ends[0]);
  alive_ = FileDescriptor(ends[1]);
  child_ = ::fork();
  if (child_ < 0) {
    return Status::Error(StatusCode::kResourceExhausted, "start a process", errno);
  }
  if (child_ == 0) {
    ::close(alive_.Release());
    AwaitTheEnd(read_end.fd(), path_);
  }
  return Status::Ok();
}

ScratchFolder::~ScratchFolder() {
  if (!path_.empty()) {
    RemoveAll(path_);
  }
  alive_ = FileDescriptor();
  if (child_ > 0) {
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace kvferry::bench
