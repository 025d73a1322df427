// ThreadRing: IoRing by a pool of threads that read and write, where the kernel refuses io_uring.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/op_queue.h"

namespace kvferry::tiers {

// Each thread carries out one operation at a time, from the first round to the last. Sinks run in
// Reap(), as everywhere.
//
// Thread-confined, Wake() excepted.
class ThreadRing final : public IoRing {
  struct Token {};  // Only Open can name it.

 public:
  // For operations on `files` (descriptors, borrowed until the ring is gone), at most in_flight_max
  // at a time. kResourceExhausted when not a single thread can be started; fewer than thread_count
  // are enough.
  static Result<std::unique_ptr<ThreadRing>> Open(std::span<const int> files,
                                                  std::uint32_t in_flight_max,
                                                  std::uint32_t thread_count);

  ThreadRing(Token token, std::span<const int> files, std::uint32_t in_flight_max);
  ThreadRing(const ThreadRing&) = delete;
  ThreadRing& operator=(const ThreadRing&) = delete;
  ~ThreadRing() override;

  std::size_t Reap(Instant now) override;
  std::uint32_t in_flight() const noexcept override { return in_flight_; }
  std::uint32_t in_flight_max() const noexcept override { return in_flight_max_; }
  void WaitUntil(Instant deadline) override;
  void Wake() noexcept override;
  // Has no use for it.
  Status RegisterBuffer(std::span<std::byte> chunk) override;
  std::size_t thread_count() const noexcept { return threads_.size(); }

 private:
  Status Take(IoOp& op) override;
  Status StartThreads(std::uint32_t thread_count);
  void Work();
  void Carry(IoOp& op) const;

  std::vector<int> files_;
  std::uint32_t in_flight_max_;
  std::uint32_t in_flight_ = 0;
  bool is_closing_ = false;  // To the owner; the threads go by is_stopping_.
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // Guards what follows; no call is made with it held.
  std::condition_variable work_came_;
  std::condition_variable end_came_;
  OpQueue waiting_;
  OpQueue ended_;
  bool is_woken_ = false;
  bool is_stopping_ = false;
};

}  // namespace kvferry::tiers
