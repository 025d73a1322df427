// Two rings of jobs, and the arena that is told of each.
#include "engine/copy_arena.h"

#include <exception>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include "base/assert.h"

namespace kvferry::engine {

class CopyArena::Threads {
 public:
  explicit Threads(std::uint32_t threads)
      : limit_(tbb::global_control::max_allowed_parallelism, threads + 1U),
        arena_(static_cast<int>(threads), 0) {
    arena_.initialize();
  }
  tbb::task_arena& arena() { return arena_; }

 private:
  tbb::global_control limit_;
  tbb::task_arena arena_;
};

void CopyArena::Queue::Push(CopyJob& job) {
  KVFERRY_CHECK(count < jobs.size());
  jobs[(first + count) % jobs.size()] = &job;
  ++count;
}

CopyJob* CopyArena::Queue::Pop() {
  if (count == 0) {
    return nullptr;
  }
  CopyJob* job = jobs[first];
  first = (first + 1) % jobs.size();
  --count;
  return job;
}

CopyArena::CopyArena(Token /*token*/, std::uint32_t jobs_max, MoverBell& bell) : bell_(bell) {
  waiting_.jobs.resize(jobs_max);
  done_.jobs.resize(jobs_max);
}

Result<std::unique_ptr<CopyArena>> CopyArena::Create(std::uint32_t threads,
                                                     std::uint32_t jobs_max,
                                                     MoverBell& bell) {
  KVFERRY_CHECK(threads > 0);
  try {
    auto arena = std::make_unique<CopyArena>(Token(), jobs_max, bell);
    arena->threads_ = std::make_unique<Threads>(threads);
    return arena;
  } catch (const std::exception& error) {
    return Status::Error(StatusCode::kResourceExhausted,
                         std::string("start the copy threads: ") + error.what());
  }
}

CopyArena::~CopyArena() {
  const MutexLock lock(mutex_);
  while (running_ > 0) {
    is_quiet_.Wait(mutex_);
  }
}

void CopyArena::Submit(CopyJob& job) {
  {
    const MutexLock lock(mutex_);
    waiting_.Push(job);
    ++running_;
  }
  ++in_flight_;
  threads_->arena().enqueue([this] { RunOne(); });
}

void CopyArena::RunOne() {
  CopyJob* job = nullptr;
  {
    const MutexLock lock(mutex_);
    job = waiting_.Pop();
  }
  KVFERRY_CHECK(job != nullptr);
  RunCopyJob(*job);
  {
    const MutexLock lock(mutex_);
    done_.Push(*job);
  }
  bell_.Ring();
  const MutexLock lock(mutex_);
  if (--running_ == 0) {
    is_quiet_.NotifyAll();
  }
}

std::size_t CopyArena::Reap(Instant /*now*/, std::span<CopyJob*> done) {
  std::size_t count = 0;
  const MutexLock lock(mutex_);
  while (count < done.size()) {
    CopyJob* job = done_.Pop();
    if (job == nullptr) {
      break;
    }
    done[count++] = job;
  }
  in_flight_ -= count;
  return count;
}

}  // namespace kvferry::engine
