// OpQueue: operations in a row, linked through themselves, so that queues never allocate.
#pragma once

#include <cstddef>

#include "tiers/nvme/io_ring.h"

namespace kvferry::tiers {

// First in, first out. Thread-compatible.
class OpQueue {
 public:
  bool is_empty() const noexcept { return first_ == nullptr; }
  std::size_t size() const noexcept { return size_; }

  void Push(IoOp& op) noexcept {
    op.in_flight.next = nullptr;
    (is_empty() ? first_ : last_->in_flight.next) = &op;
    last_ = &op;
    ++size_;
  }
  // Null when empty.
  IoOp* Pop() noexcept {
    IoOp* const op = first_;
    if (op != nullptr) {
      first_ = op->in_flight.next;
      --size_;
    }
    return op;
  }

 private:
  IoOp* first_ = nullptr;
  IoOp* last_ = nullptr;  // Meaningful unless empty.
  std::size_t size_ = 0;
};

}  // namespace kvferry::tiers
