// How operations go through the kernel's queues, round by round.
#include "tiers/nvme/uring_ring.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "tiers/nvme/io_errors.h"
#include "tiers/nvme/io_rounds.h"

namespace kvferry::tiers {
namespace {

// Before the next round of what the kernel has put off.
constexpr Duration kPause = std::chrono::milliseconds(1);
constexpr Duration kClosingWait = std::chrono::milliseconds(100);

std::uint64_t MarkOf(Instant time) {
  return static_cast<std::uint64_t>(time.time_since_epoch().count());
}

}  // namespace

UringRing::UringRing(std::unique_ptr<KernelRing> kernel,
                     std::uint32_t file_count,
                     std::uint32_t in_flight_max)
    : kernel_(std::move(kernel)), file_count_(file_count), entries_(in_flight_max) {
  KVFERRY_CHECK(in_flight_max > 0);
  free_entries_.reserve(in_flight_max);
  for (std::uint32_t entry = in_flight_max; entry > 0; --entry) {
    free_entries_.push_back(entry - 1);
  }
}

UringRing::~UringRing() {
  is_closing_ = true;
  while (in_flight() > 0 && !is_out_of_order_) {
    WaitUntil(Clock::now() + kClosingWait);
    Reap(Clock::now());
  }
  if (in_flight() == 0) {
    return;
  }
  kernel_.reset();
  for (IoOp* op : entries_) {
    if (op != nullptr) {
      op->status = IoError(Describe(*op) + ": lost by the kernel", ECANCELED);
      Deliver(*op);
    }
  }
}

std::uint32_t UringRing::in_flight() const noexcept {
  return static_cast<std::uint32_t>(entries_.size() - free_entries_.size());
}

std::uint32_t UringRing::in_flight_max() const noexcept {
  return static_cast<std::uint32_t>(entries_.size());
}

Status UringRing::Take(IoOp& op) {
  KVFERRY_RETURN_IF_ERROR(CheckIoOp(op, file_count_));
  if (is_out_of_order_ || is_closing_) {
    return Status::Error(StatusCode::kUnavailable, "the ring is out of order or closing");
  }
  if (free_entries_.empty()) {
    return Status::Error(StatusCode::kResourceExhausted, "all entries of the ring are in flight");
  }
  StartRounds(op);
  op.in_flight.entry = free_entries_.back();
  free_entries_.pop_back();
  entries_[op.in_flight.entry] = &op;
  waiting_.Push(op);
  return Status::Ok();
}

std::size_t UringRing::Reap(Instant now) {
  if (in_flight() == 0) {
    return 0;
  }
  HandOver(now);
  std::array<KernelEnd, kEndsAtOnce> ends;
  std::size_t delivered = 0;
  // What sinks submit is handed over only afterwards, so the ends run out.
  while (const std::size_t count = kernel_->TakeEnds(ends)) {
    for (const KernelEnd& end : std::span(ends).first(count)) {
      delivered += Settle(end, now) ? 1U : 0U;
    }
  }
  HandOver(now);
  return delivered;
}

void UringRing::HandOver(Instant now) {
  if (is_out_of_order_) {
    return;
  }
  for (std::size_t left = waiting_.size(); left > 0; --left) {
    IoOp* const op = waiting_.Pop();
    const bool is_pausing = op->in_flight.mark > MarkOf(now);
    if (is_pausing || !kernel_->Prepare({op, RestOf(*op), RestOffset(*op)})) {
      waiting_.Push(*op);
    }
  }
  Judge(kernel_->Enter());
}

void UringRing::Judge(int entered) {
  const bool is_passing = entered == -EAGAIN || entered == -EBUSY || entered == -EINTR ||
                          entered == -ENOMEM || entered == -ETIME;
  is_out_of_order_ = is_out_of_order_ || (entered < 0 && !is_passing);
}

bool UringRing::Settle(const KernelEnd& end, Instant now) {
  IoOp& op = *end.op;
  switch (SettleRound(op, end.result)) {
    case RoundEnd::kDone:
      Deliver(op);
      return true;
    case RoundEnd::kAgain:
      op.in_flight.mark = 0;
      break;
    case RoundEnd::kAgainLater:
      op.in_flight.mark = MarkOf(now + kPause);
      break;
  }
  waiting_.Push(op);
  return false;
}

void UringRing::Deliver(IoOp& op) {
  entries_[op.in_flight.entry] = nullptr;
  free_entries_.push_back(op.in_flight.entry);
  op.sink->OnIoDone(op);
}

void UringRing::WaitUntil(Instant deadline) {
  const Instant now = Clock::now();
  HandOver(now);
  if (!waiting_.is_empty()) {
    deadline = std::min(deadline, now + kPause);
  }
  if (!is_out_of_order_) {
    Judge(kernel_->EnterAndWait(std::max(Duration(0), deadline - now)));
  }
}

Status UringRing::RegisterBuffer(std::span<std::byte> chunk) {
  return kernel_->RegisterBuffer(chunk);
}

}  // namespace kvferry::tiers
