// Whole-file writing: a temporary neighbour, then a rename.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/remove_on_signal.h"

namespace kvferry {
namespace {

constexpr int kNameAttemptsMax = 100;  // Names left by killed processes with our process id.
constexpr mode_t kPermissionBits = 07777;

std::string Reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

Status WriteError(const std::string& path, int error) {
  return Status::Error(StatusCode::kIoError,
                       "cannot write \"" + path + "\": " + Reason(error) +
                           "; name a file in a folder that exists and that you may write to",
                       error);
}

// 0 or errno.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// The path behind links, so that a rename replaces the file and not a link to it. A link to nothing
// is itself replaced.
std::string BehindLinks(const std::string& path) {
  std::error_code error;
  std::filesystem::path resolved = std::filesystem::weakly_canonical(path, error);
  return error || resolved.empty() ? path : resolved.string();
}

struct Target {
  std::string path;  // Behind links.
  std::optional<mode_t> mode;
  bool is_regular = true;  // Also true when there is nothing yet.
};

Target Look(const std::string& path) {
  Target target;
  struct stat status = {};
  // A device is asked for by the name that was given: /dev/stdout resolves to a pipe without one.
  if (::stat(path.c_str(), &status) == 0) {
    target.is_regular = S_ISREG(status.st_mode);
    target.mode = status.st_mode & kPermissionBits;
  }
  target.path = target.is_regular ? BehindLinks(path) : path;
  return target;
}

struct TemporaryFile {
  FileDescriptor file;
  std::string path;
};

// A file of an unused name beside `path`; the mode is what the process gives to any new file.
// `asked_path` stands for it in errors.
Result<TemporaryFile> OpenTemporary(const std::string& path, const std::string& asked_path) {
  static std::atomic<unsigned> counter = 0;
  for (int attempt = 0; attempt < kNameAttemptsMax; ++attempt) {
    TemporaryFile temporary;
    temporary.path =
        path + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1));
    temporary.file = FileDescriptor(
        ::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (temporary.file.is_open()) {
      return temporary;
    }
    if (errno != EEXIST) {
      return WriteError(asked_path, errno);
    }
  }
  return WriteError(asked_path, EEXIST);
}

Status WriteDirectly(const std::string& path, std::string_view text) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return WriteError(path, errno);
  }
  int error = WriteAll(file.fd(), text);
  const int close_error = file.Close();
  error = error != 0 ? error : close_error;
  return error == 0 ? Status::Ok() : WriteError(path, error);
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  Close();
}

int FileDescriptor::Close() noexcept {
  const int fd = std::exchange(fd_, -1);
  // Linux releases the number even when close is interrupted, so it is never repeated.
  return fd < 0 || ::close(fd) == 0 || errno == EINTR ? 0 : errno;
}

Status WriteFileAtomically(const std::string& path, std::string_view text) {
  const Target target = Look(path);
  if (!target.is_regular) {
    return WriteDirectly(target.path, text);
  }
  // A signal waits until the text has its name: it is short, and half of it is never left behind.
  const SignalsHeldBack held_back;
  KVFERRY_ASSIGN_OR_RETURN(TemporaryFile temporary, OpenTemporary(target.path, path));
  int error = WriteAll(temporary.file.fd(), text);
  if (error == 0 && target.mode && ::fchmod(temporary.file.fd(), *target.mode) != 0) {
    error = errno;
  }
  // A full disk may be noticed as late as here.
  const int close_error = temporary.file.Close();
  error = error != 0 ? error : close_error;
  if (error == 0 && ::rename(temporary.path.c_str(), target.path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    ::unlink(temporary.path.c_str());
    return WriteError(path, error);
  }
  return Status::Ok();
}

AtomicFile::AtomicFile() noexcept = default;
AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_path_(std::move(other.target_path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      mode_(other.mode_),
      stream_(std::move(other.stream_)),
      removal_(std::move(other.removal_)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_path_.empty()) {
    ::unlink(temporary_path_.c_str());
  }
}

Result<AtomicFile> AtomicFile::Create(const std::string& path) {
  const Target target = Look(path);
  AtomicFile file;
  file.path_ = path;
  file.target_path_ = target.path;
  file.mode_ = target.mode;
  FileDescriptor descriptor;
  if (target.is_regular) {
    // Before the first signal can come, the handler knows the name.
    const SignalsHeldBack held_back;
    KVFERRY_ASSIGN_OR_RETURN(TemporaryFile temporary, OpenTemporary(target.path, path));
    file.removal_ = std::make_unique<RemoveOnSignal>(temporary.path);
    file.temporary_path_ = std::move(temporary.path);
    descriptor = std::move(temporary.file);
  } else {
    descriptor = FileDescriptor(::open(target.path.c_str(), O_WRONLY | O_CLOEXEC));
  }
  if (!descriptor.is_open()) {
    return WriteError(path, errno);
  }
  file.stream_.reset(::fdopen(descriptor.fd(), "w"));
  if (file.stream_ == nullptr) {
    return WriteError(path, errno);
  }
  (void)descriptor.Release();  // The stream closes it.
  return file;
}

Status AtomicFile::Commit() {
  int error = 0;
  if (std::fflush(stream_.get()) != 0) {
    error = errno;
  }
  const bool is_temporary = !temporary_path_.empty();
  if (error == 0 && is_temporary && mode_ && ::fchmod(::fileno(stream_.get()), *mode_) != 0) {
    error = errno;
  }
  // A full disk may be noticed as late as here.
  if (std::fclose(stream_.release()) != 0 && error == 0) {
    error = errno;
  }
  if (error == 0 && is_temporary && ::rename(temporary_path_.c_str(), target_path_.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    return WriteError(path_, error);
  }
  removal_.reset();
  temporary_path_.clear();
  return Status::Ok();
}

Status CheckFileCanBeWritten(const std::string& path) {
  const Target target = Look(path);
  Status status;
  if (target.is_regular) {
    // A signal between the two would leave the empty file behind.
    const SignalsHeldBack held_back;
    Result<TemporaryFile> temporary = OpenTemporary(target.path, path);
    if (temporary.has_value()) {
      ::unlink(temporary->path.c_str());
    }
    status = temporary.status();
  } else if (::access(target.path.c_str(), W_OK) != 0) {
    status = WriteError(path, errno);
  } else if (std::error_code error; std::filesystem::is_directory(target.path, error)) {
    status = WriteError(path, EISDIR);
  }
  if (status.ok()) {
    return status;
  }
  return Status::Error(StatusCode::kInvalidArgument, std::string(status.message()),
                       status.native_code());
}

std::uint64_t FileSystemOf(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_dev : 0;
}

}  // namespace kvferry
