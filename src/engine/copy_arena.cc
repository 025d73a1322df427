// Two rings of jobs, and the threads between them.
#include "engine/copy_arena.h"

#include <exception>
#include <string>

#include "base/assert.h"

namespace kvferry::engine {

void CopyArena::Queue::Push(CopyJob& job) {
  KVFERRY_CHECK(count < jobs.size());
  jobs[(first + count) % jobs.size()] = &job;
  ++count;
  untold_bytes += job.size_bytes;
  has_untold = true;
}

bool CopyArena::Queue::TellIf(bool is_wanted) {
  if (!has_untold || !(is_wanted || untold_bytes >= kWakeBytes)) {
    return false;
  }
  untold_bytes = 0;
  has_untold = false;
  return true;
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
    arena->threads_.reserve(threads);
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      arena->threads_.emplace_back([pool = arena.get()] { pool->RunThread(); });
    }
    return arena;
  } catch (const std::exception& error) {
    return Status::Error(StatusCode::kResourceExhausted,
                         std::string("start the copy threads: ") + error.what());
  }
}

CopyArena::~CopyArena() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    has_job_.NotifyAll();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void CopyArena::Submit(CopyJob& job) {
  ++in_flight_;
  const MutexLock lock(mutex_);
  waiting_.Push(job);
  if (waiting_.TellIf(false)) {
    has_job_.NotifyOne();
  }
}

void CopyArena::Flush() {
  const MutexLock lock(mutex_);
  if (waiting_.TellIf(true)) {
    has_job_.NotifyOne();
  }
}

CopyJob* CopyArena::AwaitJob() {
  const MutexLock lock(mutex_);
  CopyJob* job = waiting_.Pop();
  while (job == nullptr && !is_ending_) {
    has_job_.Wait(mutex_);
    job = waiting_.Pop();
  }
  return job;
}

void CopyArena::RunThread() {
  for (CopyJob* job = AwaitJob(); job != nullptr; job = AwaitJob()) {
    RunCopyJob(*job);
    if (PutBack(*job)) {
      bell_.Ring();
    }
  }
}

bool CopyArena::PutBack(CopyJob& job) {
  const MutexLock lock(mutex_);
  done_.Push(job);
  return done_.TellIf(waiting_.count == 0);
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
