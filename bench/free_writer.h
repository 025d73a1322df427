// FreeWriter: a thread that writes as fast as the drive takes it, beside whatever else goes on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "kvferry/status.h"

#include "bench/nvme_plain_loop.h"

namespace kvferry::bench {

// Writes by a PlainLoop of its own between Resume and Pause.
//
// Thread-compatible.
class FreeWriter {
 public:
  explicit FreeWriter(PlainLoop::Options options);
  FreeWriter(const FreeWriter&) = delete;
  FreeWriter& operator=(const FreeWriter&) = delete;
  ~FreeWriter();

  void Resume();
  // Returns when nothing is in flight any more: the bytes written since Resume, or why it failed.
  Result<std::uint64_t> Pause();

 private:
  void Work();

  PlainLoop::Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;  // Or has failed to.
  bool is_wanted_ = false;
  bool is_writing_ = false;
  bool is_over_ = false;
  std::uint64_t bytes_ = 0;
  Status failure_;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace kvferry::bench
