// Batches of copies.
#include "gpu/copy_batch.h"

#include "base/assert.h"

namespace kvferry::gpu {

CopyBatch::CopyBatch(std::size_t capacity) : capacity_(capacity) {
  targets_.reserve(capacity);
  sources_.reserve(capacity);
  sizes_.reserve(capacity);
}

void CopyBatch::Add(void* target, const void* source, std::size_t size_bytes) {
  KVFERRY_CHECK(!is_full());
  KVFERRY_CHECK(size_bytes > 0);
  targets_.push_back(target);
  sources_.push_back(source);
  sizes_.push_back(size_bytes);
}

Status CopyBatch::Submit(Stream& stream) {
  if (targets_.empty()) {
    return Status::Ok();
  }
  Device& device = stream.device();
  Status status = device.health();
  if (status.ok()) {
    // The order kStream also for host memory: "any" would let the driver read a source before what
    // the stream waits for has written it.
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    status = device.Check(
        device.api().cudaMemcpyBatchAsync(targets_.data(), sources_.data(), sizes_.data(),
                                          targets_.size(), &attributes, &first, 1, stream.native()),
        "cudaMemcpyBatchAsync");
  }
  targets_.clear();
  sources_.clear();
  sizes_.clear();
  return status;
}

}  // namespace kvferry::gpu
