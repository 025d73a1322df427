// Statuses and output as the shell sees them.
#include "exit_code.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace kvferry::tool {

int ReportStatus(const Status& status) {
  if (status.ok()) {
    return kExitOk;
  }
  std::string text = "kvferry: ";
  text.append(status.message());
  if (status.native_code() != 0 && status.code() == StatusCode::kIoError) {
    char reason[128] = {};
    const char* const words = ::strerror_r(status.native_code(), reason, sizeof(reason));
    if (text.find(words) == std::string::npos) {
      text.append(": ").append(words);
    }
  }
  std::fprintf(stderr, "%s\n", text.c_str());
  return status.code() == StatusCode::kInvalidArgument ? kExitUsage : kExitFailure;
}

int PrintOutput(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
      continue;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno == EPIPE) {
      return kExitOk;
    }
    return ReportStatus(Status::Error(StatusCode::kIoError, "cannot write standard output", errno));
  }
  return kExitOk;
}

}  // namespace kvferry::tool
