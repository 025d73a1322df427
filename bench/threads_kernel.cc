// Requests become operations of a ring of threads, and its ends become theirs.
#include "bench/threads_kernel.h"

#include <algorithm>
#include <cerrno>

#include "base/bytes.h"

namespace kvferry::bench {

bool ThreadsKernel::Prepare(const tiers::KernelRequest& request) {
  request.op->sink = this;
  return ring_->Submit(*request.op).ok();
}

std::size_t ThreadsKernel::TakeEnds(std::span<tiers::KernelEnd> ends) {
  if (ended_.empty()) {
    ring_->Reap(Clock::now());
  }
  const std::size_t count = std::min(ends.size(), ended_.size());
  for (tiers::KernelEnd& end : ends.first(count)) {
    tiers::IoOp* const op = ended_.back();
    ended_.pop_back();
    const int native = op->status.native_code() > 0 ? op->status.native_code() : EIO;
    end = {op, op->status.ok() ? Narrow<int>(op->buffer.size()) : -native};
  }
  return count;
}

int ThreadsKernel::EnterAndWait(Duration time_max) {
  ring_->WaitUntil(Clock::now() + time_max);
  return 0;
}

}  // namespace kvferry::bench
