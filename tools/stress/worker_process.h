// WorkerProcess: a KillWorker in a process of its own, and what is left of it when that has ended.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "base/file.h"
#include "stress/block_model.h"
#include "stress/kill_journal.h"
#include "stress/kill_worker.h"

namespace kvferry::stress {

// Thread-confined. No other thread of the process may run when one starts.
class WorkerProcess {
  struct Token {};

 public:
  // The process has copies of the options and of the model, and calls `prepare` before its worker
  // runs. It dies with this one. kResourceExhausted, kIoError: it could not be started.
  static Result<std::unique_ptr<WorkerProcess>> Start(const KillWorkerOptions& options,
                                                      const BlockModel& model,
                                                      FunctionRef<void(KillJournal&)> prepare);
  explicit WorkerProcess(Token token);
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  // Kills what still runs.
  ~WorkerProcess();

  // Both processes see it.
  KillJournal& journal() noexcept { return *journal_; }
  const KillJournal& journal() const noexcept { return *journal_; }

  // As waitpid tells it, once the process has ended.
  std::optional<int> EndedWith();
  // Sends the signal, and waits for the end.
  int EndBy(int signal);
  // The first of what it wrote to standard error; "not a word".
  std::string Errors() const;

 private:
  int Await();

  void* memory_ = nullptr;
  KillJournal* journal_ = nullptr;
  FileDescriptor errors_;
  pid_t pid_ = -1;
  std::optional<int> ended_with_;
};

// "with signal 6", "with exit code 1".
std::string DescribeEnd(int wait_status);

}  // namespace kvferry::stress
