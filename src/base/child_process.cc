// posix_spawn, three channels, one poll loop, one wait.
#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/assert.h"
#include "base/file.h"

namespace kvferry {
namespace {

constexpr std::size_t kErrorOutputBytesMax = std::size_t{64} << 10;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr int kReapPollMs = 5;  // The program has closed its channels: it ends within moments.

using Deadline = std::chrono::steady_clock::time_point;

Status SystemError(std::string_view action, int error) {
  return Status::Error(
      StatusCode::kIoError,
      std::string(action) + ": " + std::error_code(error, std::generic_category()).message(),
      error);
}

int RemainingMs(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

// Ours and the child's end of one channel. Sockets rather than pipes: a send can be told not to
// raise SIGPIPE, whatever the caller's handler for it is.
struct Channel {
  FileDescriptor ours;
  FileDescriptor theirs;
};

Result<Channel> OpenChannel() {
  std::array<int, 2> ends = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return SystemError("open a channel to a child process", errno);
  }
  Channel channel{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  if (channel.theirs.fd() <= STDERR_FILENO) {
    // Our own standard channels are closed; the child's must not overwrite one another.
    channel.theirs =
        FileDescriptor(::fcntl(channel.theirs.fd(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!channel.theirs.is_open()) {
      return SystemError("open a channel to a child process", errno);
    }
  }
  // Only our end: the flag belongs to the open socket, and the program expects to block.
  if (::fcntl(channel.ours.fd(), F_SETFL, O_NONBLOCK) != 0) {
    return SystemError("set up a channel to a child process", errno);
  }
  return channel;
}

struct Channels {
  Channel input;
  Channel output;
  Channel error;
};

// Owns the two argument objects of posix_spawn.
class SpawnSetup {
 public:
  SpawnSetup() {
    // Both only fail for lack of memory.
    KVFERRY_CHECK(::posix_spawn_file_actions_init(&actions_) == 0);
    KVFERRY_CHECK(::posix_spawnattr_init(&attributes_) == 0);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }

  // The program gets its channels as 0, 1, 2, an empty signal mask and the usual SIGPIPE.
  int Fill(const Channels& channels) {
    sigset_t none;
    sigset_t defaults;
    ::sigemptyset(&none);
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE);
    const std::array<int, 6> results = {
        ::posix_spawn_file_actions_adddup2(&actions_, channels.input.theirs.fd(), STDIN_FILENO),
        ::posix_spawn_file_actions_adddup2(&actions_, channels.output.theirs.fd(), STDOUT_FILENO),
        ::posix_spawn_file_actions_adddup2(&actions_, channels.error.theirs.fd(), STDERR_FILENO),
        ::posix_spawnattr_setsigmask(&attributes_, &none),
        ::posix_spawnattr_setsigdefault(&attributes_, &defaults),
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF),
    };
    return *std::max_element(results.begin(), results.end());
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_ = {};
  posix_spawnattr_t attributes_ = {};
};

Result<pid_t> Spawn(const std::vector<std::string>& arguments, const Channels& channels) {
  std::vector<std::string> copies = arguments;  // argv wants writable strings.
  std::vector<char*> argv;
  for (std::string& argument : copies) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  SpawnSetup setup;
  int error = setup.Fill(channels);
  pid_t pid = -1;
  if (error == 0) {
    error =
        ::posix_spawnp(&pid, argv[0], setup.actions(), setup.attributes(), argv.data(), environ);
  }
  if (error != 0) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "cannot start \"" + arguments[0] +
                             "\": " + std::error_code(error, std::generic_category()).message(),
                         error);
  }
  return pid;
}

// A running program. Destruction ends it, if Reap has not seen its end.
//
// Thread-confined to the caller of RunChild.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      int status = 0;
      while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
      }
    }
  }

  // Waits for the end until `deadline`.
  Status Reap(Deadline deadline, ChildOutcome& outcome) {
    for (;;) {
      int status = 0;
      const pid_t result = ::waitpid(pid_, &status, WNOHANG);
      if (result == pid_) {
        pid_ = -1;
        outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        return Status::Ok();
      }
      if (result < 0 && errno != EINTR) {
        const int error = errno;
        pid_ = -1;  // Somebody else has reaped it, so the number may already be another's.
        return SystemError("wait for a child process", error);
      }
      const int remaining_ms = RemainingMs(deadline);
      if (remaining_ms == 0) {
        return Status::Error(StatusCode::kDeadlineExceeded, "it did not end");
      }
      ::poll(nullptr, 0, std::min(remaining_ms, kReapPollMs));
    }
  }

 private:
  pid_t pid_;
};

// Feeds what the child takes; closes the channel after the last byte, or when nobody reads.
Status Feed(Channel& channel, std::string_view& input) {
  while (!input.empty()) {
    const ssize_t sent =
        ::send(channel.ours.fd(), input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      input.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Status::Ok();
    } else if (errno == EPIPE || errno == ECONNRESET) {
      input = {};
    } else if (errno != EINTR) {
      return SystemError("write to a child process", errno);
    }
  }
  channel.ours.Close();
  return Status::Ok();
}

// Appends what is there to `text`, keeping the first `bytes_max`; true if there was more than that.
Result<bool> Collect(Channel& channel, std::string& text, std::size_t bytes_max) {
  std::array<char, kReadBytes> buffer;
  for (;;) {
    const ssize_t count = ::read(channel.ours.fd(), buffer.data(), buffer.size());
    if (count > 0) {
      const auto taken = std::min(static_cast<std::size_t>(count), bytes_max - text.size());
      text.append(buffer.data(), taken);
      if (taken < static_cast<std::size_t>(count)) {
        return true;
      }
    } else if (count == 0 || errno == ECONNRESET) {
      channel.ours.Close();
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      return SystemError("read from a child process", errno);
    }
  }
}

// Until the program has closed both of its outputs.
Status Converse(const ChildCommand& command,
                Channels& channels,
                Deadline deadline,
                ChildOutcome& outcome) {
  std::string_view input = command.input;
  KVFERRY_RETURN_IF_ERROR(Feed(channels.input, input));
  while (channels.output.ours.is_open() || channels.error.ours.is_open()) {
    // poll skips negative descriptors, which is what closed channels have.
    std::array<pollfd, 3> waits = {pollfd{channels.input.ours.fd(), POLLOUT, 0},
                                   pollfd{channels.output.ours.fd(), POLLIN, 0},
                                   pollfd{channels.error.ours.fd(), POLLIN, 0}};
    const int remaining_ms = RemainingMs(deadline);
    if (remaining_ms == 0) {
      return Status::Error(StatusCode::kDeadlineExceeded, "it did not end");
    }
    const int ready = ::poll(waits.data(), waits.size(), remaining_ms);
    if (ready < 0 && errno != EINTR) {
      return SystemError("wait for the output of a child process", errno);
    }
    if (ready <= 0) {
      continue;
    }
    if (waits[0].revents != 0) {
      KVFERRY_RETURN_IF_ERROR(Feed(channels.input, input));
    }
    if (waits[1].revents != 0) {
      KVFERRY_ASSIGN_OR_RETURN(const bool is_too_much,
                               Collect(channels.output, outcome.output, command.output_bytes_max));
      if (is_too_much) {
        return Status::Error(
            StatusCode::kResourceExhausted,
            "it printed more than " + std::to_string(command.output_bytes_max) + " bytes");
      }
    }
    if (waits[2].revents != 0) {
      // What is beyond the limit is read and dropped, so that the program is not held up.
      KVFERRY_RETURN_IF_ERROR(
          Collect(channels.error, outcome.error_output, kErrorOutputBytesMax).status());
    }
  }
  return Status::Ok();
}

}  // namespace

Result<ChildOutcome> RunChild(const ChildCommand& command) {
  KVFERRY_CHECK(!command.arguments.empty());
  const Deadline deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(command.timeout_ms);
  Channels channels;
  KVFERRY_ASSIGN_OR_RETURN(channels.input, OpenChannel());
  KVFERRY_ASSIGN_OR_RETURN(channels.output, OpenChannel());
  KVFERRY_ASSIGN_OR_RETURN(channels.error, OpenChannel());
  KVFERRY_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command.arguments, channels));
  Child child(pid);
  for (Channel* channel : {&channels.input, &channels.output, &channels.error}) {
    channel->theirs.Close();
  }
  ChildOutcome outcome;
  Status status = Converse(command, channels, deadline, outcome);
  if (status.ok()) {
    status = child.Reap(deadline, outcome);
  }
  if (!status.ok()) {
    return status.WithContext("\"" + command.arguments[0] + "\"");
  }
  return outcome;
}

}  // namespace kvferry
