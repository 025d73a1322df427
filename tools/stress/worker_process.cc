// Forked, not started anew: the child has the model without being told it.
#include "stress/worker_process.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>

#include "base/log.h"

namespace kvferry::stress {
namespace {

constexpr std::size_t kErrorTextMax = 400;

}  // namespace

WorkerProcess::WorkerProcess(Token /*token*/)
    : memory_(::mmap(
          nullptr, sizeof(KillJournal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
      errors_(::memfd_create("kvferry-stress", MFD_CLOEXEC)) {
  if (memory_ != MAP_FAILED) {
    journal_ = ::new (memory_) KillJournal;
  }
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0 && !ended_with_) {
    EndBy(SIGKILL);
  }
  if (memory_ != MAP_FAILED) {
    ::munmap(memory_, sizeof(KillJournal));
  }
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(
    const KillWorkerOptions& options,
    const BlockModel& model,
    FunctionRef<void(KillJournal&)> prepare) {
  auto process = std::make_unique<WorkerProcess>(Token());
  if (process->journal_ == nullptr) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory to share with a process");
  }
  if (!process->errors_.is_open()) {
    return Status::Error(StatusCode::kIoError, "make a file for a process's errors", errno);
  }
  process->pid_ = ::fork();
  if (process->pid_ < 0) {
    return Status::Error(StatusCode::kIoError, "start a process for a store", errno);
  }
  if (process->pid_ > 0) {
    return process;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(process->errors_.fd(), STDERR_FILENO);
  SetLogLevel(LogLevel::kError);
  prepare(process->journal());
  BlockModel copy = model;
  KillWorker(options, copy, process->journal()).Run();
  // Whatever else there is to tidy belongs to the parent.
  ::_exit(0);
}

std::optional<int> WorkerProcess::EndedWith() {
  int status = 0;
  if (!ended_with_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_with_ = status;
  }
  return ended_with_;
}

int WorkerProcess::EndBy(int signal) {
  ::kill(pid_, signal);
  return Await();
}

int WorkerProcess::Await() {
  int status = 0;
  while (!ended_with_ && ::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  ended_with_ = ended_with_.value_or(status);
  return *ended_with_;
}

std::string WorkerProcess::Errors() const {
  std::string text(kErrorTextMax, '\0');
  const ssize_t got = ::pread(errors_.fd(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text.empty() ? "not a word" : text;
}

std::string DescribeEnd(int wait_status) {
  return WIFSIGNALED(wait_status) ? "with signal " + std::to_string(WTERMSIG(wait_status))
                                  : "with exit code " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace kvferry::stress
