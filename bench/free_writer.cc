// The thread waits to be wanted, then writes in short runs until it is not any more.
#include "bench/free_writer.h"

#include <utility>

namespace kvferry::bench {
namespace {

constexpr Duration kRun = std::chrono::milliseconds(20);

}  // namespace

FreeWriter::FreeWriter(PlainLoop::Options options)
    : options_(std::move(options)), thread_([this] { Work(); }) {}

FreeWriter::~FreeWriter() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    is_wanted_ = false;
  }
  changed_.notify_all();
  thread_.join();
}

void FreeWriter::Resume() {
  {
    const std::lock_guard lock(mutex_);
    is_wanted_ = true;
    bytes_ = 0;
  }
  changed_.notify_all();
}

Result<std::uint64_t> FreeWriter::Pause() {
  std::unique_lock lock(mutex_);
  is_wanted_ = false;
  changed_.wait(lock, [this] { return is_open_ && !is_writing_; });
  KVFERRY_RETURN_IF_ERROR(failure_);
  return bytes_;
}

void FreeWriter::Work() {
  // Here, since only the thread that makes the queues may use them.
  auto loop = PlainLoop::Open(options_);
  std::unique_lock lock(mutex_);
  failure_ = loop.status();
  is_open_ = true;
  changed_.notify_all();
  while (failure_.ok()) {
    changed_.wait(lock, [this] { return is_wanted_ || is_over_; });
    if (is_over_) {
      return;
    }
    is_writing_ = true;
    while (is_wanted_ && failure_.ok()) {
      lock.unlock();
      const Result<Slice> slice = (*loop)->Run(tiers::IoOp::Kind::kWrite, {.time = kRun});
      lock.lock();
      failure_ = slice.status();
      bytes_ += slice.ok() ? slice->bytes : 0;
    }
    is_writing_ = false;
    changed_.notify_all();
  }
}

}  // namespace kvferry::bench
