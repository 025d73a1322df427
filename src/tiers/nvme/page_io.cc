// The loops around pread and pwrite.
#include "tiers/nvme/page_io.h"

#include <unistd.h>

#include <cerrno>

namespace kvferry::tiers {

PageRead ReadAt(int fd, std::span<std::byte> target, std::uint64_t offset) noexcept {
  PageRead read;
  while (read.size_bytes < target.size()) {
    const ssize_t got =
        ::pread(fd, target.data() + read.size_bytes, target.size() - read.size_bytes,
                static_cast<off_t>(offset + read.size_bytes));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      read.error_number = errno;
      break;
    }
    if (got == 0) {
      break;
    }
    read.size_bytes += static_cast<std::size_t>(got);
  }
  return read;
}

int WriteAt(int fd, std::span<const std::byte> source, std::uint64_t offset) noexcept {
  std::size_t done = 0;
  while (done < source.size()) {
    const ssize_t put =
        ::pwrite(fd, source.data() + done, source.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      return put == 0 ? EIO : errno;
    }
    done += static_cast<std::size_t>(put);
  }
  return 0;
}

}  // namespace kvferry::tiers
