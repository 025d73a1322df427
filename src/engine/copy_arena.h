// CopyArena: copy jobs on a fixed number of threads of the engine's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "kvferry/status.h"

#include "base/mutex.h"
#include "engine/copy_work.h"
#include "engine/mover_bell.h"

namespace kvferry::engine {

// Jobs pass from the mover to a thread and back through two rings under one lock. Handing one over
// allocates nothing, and what another thread may see is said by that lock alone.
//
// To wake a thread that sleeps costs as much as to copy a job of small blocks. So jobs gather in
// both directions: a thread is woken for kWakeBytes, or at Flush() for less; the bell is rung for
// as many bytes done, or when no job waits to be begun.
//
// Submit, Flush and Reap are for the mover thread.
class CopyArena final : public CopyWorkers {
  struct Token {};  // Only Create can name it.

 public:
  static constexpr std::uint64_t kWakeBytes = std::uint64_t{256} << 10;

  // At most `jobs_max` jobs are in flight. `bell` tells that some are done, and must outlive the
  // arena. kResourceExhausted if the threads are not to be had.
  static Result<std::unique_ptr<CopyArena>> Create(std::uint32_t threads,
                                                   std::uint32_t jobs_max,
                                                   MoverBell& bell);
  CopyArena(Token token, std::uint32_t jobs_max, MoverBell& bell);
  CopyArena(const CopyArena&) = delete;
  CopyArena& operator=(const CopyArena&) = delete;
  // Waits for what is in flight.
  ~CopyArena() override;

  void Submit(CopyJob& job) override;
  void Flush() override;
  std::size_t Reap(Instant now, std::span<CopyJob*> done) override;
  std::size_t in_flight() const noexcept override { return in_flight_; }

 private:
  // A ring of jobs that never holds more than it was made for.
  struct Queue {
    std::vector<CopyJob*> jobs;
    std::size_t first = 0;
    std::size_t count = 0;
    void Push(CopyJob& job);
    CopyJob* Pop();  // Null: empty.
    // Bytes of the jobs pushed since somebody was told.
    std::uint64_t untold_bytes = 0;
    bool has_untold = false;
    // Whether somebody should be told now; they are, then.
    bool TellIf(bool is_wanted);
  };

  void RunThread();
  // Whether the mover should hear of it.
  bool PutBack(CopyJob& job);
  // Null: there is nothing to do any more.
  CopyJob* AwaitJob();

  MoverBell& bell_;
  std::size_t in_flight_ = 0;  // Of the mover thread.
  Mutex mutex_;
  ConditionVariable has_job_;
  Queue waiting_ KVFERRY_GUARDED_BY(mutex_);
  Queue done_ KVFERRY_GUARDED_BY(mutex_);
  bool is_ending_ KVFERRY_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvferry::engine
