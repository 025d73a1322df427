// System calls behind FileSource.
#include "replay/readers/file_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace kvferry::replay {
namespace {

// Large enough to hide the call, small enough that progress moves within small compressed files.
constexpr std::size_t kReadMax = std::size_t{256} << 10;

}  // namespace

Result<std::unique_ptr<FileSource>> FileSource::Open(const std::string& path, ReadMeter& meter) {
  if (path == "-") {
    return std::unique_ptr<FileSource>(
        new FileSource("standard input", FileDescriptor(), STDIN_FILENO, meter));
  }
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return Status::Error(StatusCode::kIoError,
                         "cannot open " + path + " (check its name and your right to read it)",
                         errno);
  }
  const int fd = file.fd();
  return std::unique_ptr<FileSource>(new FileSource(path, std::move(file), fd, meter));
}

Result<std::size_t> FileSource::Read(std::span<char> target) {
  while (true) {
    const ssize_t read = ::read(fd_, target.data(), std::min(target.size(), kReadMax));
    if (read < 0 && errno == EINTR) {
      continue;
    }
    if (read < 0) {
      return Status::Error(StatusCode::kIoError, "cannot read " + path_, errno);
    }
    const auto count = static_cast<std::size_t>(read);
    sha256_.Update(std::as_bytes(target.first(count)));
    meter_.AddBytes(count);
    return count;
  }
}

Status FileSource::Drain() {
  std::vector<char> buffer(kReadMax);
  while (true) {
    KVFERRY_ASSIGN_OR_RETURN(const std::size_t read, Read(buffer));
    if (read == 0) {
      return Status::Ok();
    }
  }
}

std::string FileSource::TakeSha256() {
  return ToHex(sha256_.Finish());
}

}  // namespace kvferry::replay
