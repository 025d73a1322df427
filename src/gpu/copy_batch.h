// CopyBatch: many copies as one call of the runtime.
#pragma once

#include <cstddef>
#include <vector>

#include "kvferry/status.h"

#include "gpu/stream.h"

namespace kvferry::gpu {

// Collects copies up to a fixed number and submits them together; they run in no order among
// themselves, so none may write what another one reads or writes. The arrays are reused, so nothing
// is allocated after Create.
//
// Thread-compatible.
class CopyBatch {
 public:
  explicit CopyBatch(std::size_t capacity);

  std::size_t size() const noexcept { return targets_.size(); }
  std::size_t capacity() const noexcept { return capacity_; }
  bool is_full() const noexcept { return size() == capacity_; }

  // Must not be full; `size_bytes` must not be 0.
  void Add(void* target, const void* source, std::size_t size_bytes);
  // Queues what was collected, in stream order on both ends, and is empty again, whatever the
  // outcome. An error may have queued some of it. Nothing collected: does nothing.
  Status Submit(Stream& stream);

 private:
  std::size_t capacity_;
  std::vector<void*> targets_;
  std::vector<const void*> sources_;
  std::vector<std::size_t> sizes_;
};

}  // namespace kvferry::gpu
