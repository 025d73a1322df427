// The pool: operations go to the threads through one queue and come back through another.
#include "tiers/nvme/thread_ring.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/assert.h"
#include "tiers/nvme/io_errors.h"
#include "tiers/nvme/io_rounds.h"

namespace kvferry::tiers {
namespace {

// Before the next round of what the kernel has put off; also how often a closing ring looks.
constexpr Duration kPause = std::chrono::milliseconds(1);
constexpr Duration kClosingWait = std::chrono::milliseconds(100);

std::int64_t OneRound(const IoOp& op, int file) {
  const std::span<std::byte> rest = RestOf(op);
  const auto offset = static_cast<off_t>(RestOffset(op));
  std::int64_t result = 0;
  switch (op.kind) {
    case IoOp::Kind::kRead:
      result = ::pread(file, rest.data(), rest.size(), offset);
      break;
    case IoOp::Kind::kWrite:
      result = ::pwrite(file, rest.data(), rest.size(), offset);
      break;
    case IoOp::Kind::kSyncData:
      result = ::fdatasync(file);
      break;
  }
  return result < 0 ? -std::int64_t{errno} : result;
}

}  // namespace

Result<std::unique_ptr<ThreadRing>> ThreadRing::Open(std::span<const int> files,
                                                     std::uint32_t in_flight_max,
                                                     std::uint32_t thread_count) {
  KVFERRY_CHECK(in_flight_max > 0);
  KVFERRY_CHECK(thread_count > 0);
  auto ring = std::make_unique<ThreadRing>(Token(), files, in_flight_max);
  KVFERRY_RETURN_IF_ERROR(ring->StartThreads(std::min(thread_count, in_flight_max)));
  return ring;
}

ThreadRing::ThreadRing(Token /*token*/, std::span<const int> files, std::uint32_t in_flight_max)
    : files_(files.begin(), files.end()), in_flight_max_(in_flight_max) {}

Status ThreadRing::StartThreads(std::uint32_t thread_count) {
  threads_.reserve(thread_count);
  try {
    while (threads_.size() < thread_count) {
      threads_.emplace_back([this] { Work(); });
    }
  } catch (const std::system_error& error) {
    if (threads_.empty()) {
      return Status::Error(StatusCode::kResourceExhausted,
                           "no thread for reads and writes can be started", error.code().value());
    }
  }
  return Status::Ok();
}

ThreadRing::~ThreadRing() {
  is_closing_ = true;
  while (in_flight_ > 0) {
    WaitUntil(Clock::now() + kClosingWait);
    Reap(Clock::now());
  }
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  work_came_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

Status ThreadRing::Take(IoOp& op) {
  KVFERRY_RETURN_IF_ERROR(CheckIoOp(op, files_.size()));
  if (is_closing_) {
    return Status::Error(StatusCode::kUnavailable, "the ring is closing");
  }
  if (in_flight_ == in_flight_max_) {
    return Status::Error(StatusCode::kResourceExhausted, "all entries of the ring are in flight");
  }
  StartRounds(op);
  ++in_flight_;
  {
    const std::lock_guard lock(mutex_);
    waiting_.Push(op);
  }
  work_came_.notify_one();
  return Status::Ok();
}

std::size_t ThreadRing::Reap(Instant /*now*/) {
  OpQueue ended;
  {
    const std::lock_guard lock(mutex_);
    std::swap(ended, ended_);
  }
  const std::size_t count = ended.size();
  while (IoOp* const op = ended.Pop()) {
    --in_flight_;
    op->sink->OnIoDone(*op);
  }
  return count;
}

void ThreadRing::WaitUntil(Instant deadline) {
  std::unique_lock lock(mutex_);
  end_came_.wait_until(lock, deadline, [this] { return is_woken_ || !ended_.is_empty(); });
  is_woken_ = false;
}

void ThreadRing::Wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  end_came_.notify_one();
}

Status ThreadRing::RegisterBuffer(std::span<std::byte> /*chunk*/) {
  return Status::Error(StatusCode::kUnavailable, "a pool of threads registers no buffers");
}

void ThreadRing::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_came_.wait(lock, [this] { return is_stopping_ || !waiting_.is_empty(); });
    IoOp* const op = waiting_.Pop();
    if (op == nullptr) {
      return;
    }
    lock.unlock();
    Carry(*op);
    lock.lock();
    ended_.Push(*op);
    end_came_.notify_one();
  }
}

void ThreadRing::Carry(IoOp& op) const {
  const int file = files_.at(op.file_index);
  while (true) {
    const RoundEnd end = SettleRound(op, OneRound(op, file));
    if (end == RoundEnd::kDone) {
      return;
    }
    if (end == RoundEnd::kAgainLater) {
      std::this_thread::sleep_for(kPause);
    }
  }
}

}  // namespace kvferry::tiers
