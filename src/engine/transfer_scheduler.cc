// Measuring an arrow, and heaps of what waits.
#include "engine/transfer_scheduler.h"

#include <algorithm>

#include "base/assert.h"

namespace kvferry::engine {

bool ArrowMeter::HasRoom(std::uint64_t bytes) const {
  return transfers_in_flight_ < 2 || bytes_in_flight_ + bytes <= bytes_cap_;
}

void ArrowMeter::Start(Instant now, std::uint64_t bytes) {
  if (transfers_in_flight_ == 0 && idle_since_ != now) {
    window_start_ = now;
    window_bytes_ = 0;
    is_window_busy_ = false;
  }
  ++transfers_in_flight_;
  bytes_in_flight_ += bytes;
  is_window_busy_ = is_window_busy_ || !HasRoom(bytes);
}

void ArrowMeter::End(Instant now, std::uint64_t bytes) {
  KVFERRY_CHECK(transfers_in_flight_ > 0 && bytes_in_flight_ >= bytes);
  --transfers_in_flight_;
  bytes_in_flight_ -= bytes;
  idle_since_ = now;
  window_bytes_ += bytes;
  const Duration passed = now - window_start_;
  if (passed < kWindow) {
    return;
  }
  if (is_window_busy_) {
    rates_[rate_count_ % kWindows] =
        static_cast<double>(window_bytes_) / std::chrono::duration<double>(passed).count();
    ++rate_count_;
    const double best = *std::max_element(rates_.begin(), rates_.end());
    const double allowed = best * std::chrono::duration<double>(kInFlight).count();
    bytes_cap_ = std::max(kBytesFloor, static_cast<std::uint64_t>(allowed));
  }
  window_start_ = now;
  window_bytes_ = 0;
  is_window_busy_ = false;
}

// Turned round: the standard heaps keep the greatest in front.
bool TransferScheduler::ComesLater(const Waiting& a, const Waiting& b) {
  return a.deadline != b.deadline ? a.deadline > b.deadline : a.order > b.order;
}

TransferScheduler::TransferScheduler(std::uint32_t transfers_max) {
  for (std::vector<Waiting>& queue : queues_) {
    queue.reserve(transfers_max);
  }
}

void TransferScheduler::Push(TransferClass of, std::uint32_t transfer, Instant deadline) {
  std::vector<Waiting>& queue = queues_[static_cast<std::size_t>(of)];
  KVFERRY_CHECK(queue.size() < queue.capacity());
  queue.push_back({deadline, order_++, transfer});
  std::push_heap(queue.begin(), queue.end(), ComesLater);
}

std::uint32_t TransferScheduler::Front(TransferClass of) const {
  const std::vector<Waiting>& queue = queues_[static_cast<std::size_t>(of)];
  KVFERRY_CHECK(!queue.empty());
  return queue.front().transfer;
}

void TransferScheduler::Pop(TransferClass of) {
  std::vector<Waiting>& queue = queues_[static_cast<std::size_t>(of)];
  std::pop_heap(queue.begin(), queue.end(), ComesLater);
  queue.pop_back();
}

void TransferScheduler::Remove(TransferClass of, std::uint32_t transfer) {
  std::vector<Waiting>& queue = queues_[static_cast<std::size_t>(of)];
  const auto found = std::find_if(queue.begin(), queue.end(), [transfer](const Waiting& waiting) {
    return waiting.transfer == transfer;
  });
  KVFERRY_CHECK(found != queue.end());
  *found = queue.back();
  queue.pop_back();
  std::make_heap(queue.begin(), queue.end(), ComesLater);
}

}  // namespace kvferry::engine
