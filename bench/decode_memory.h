// DecodeMemory: the paged tensors of the synthetic decoder, as a server has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/device.h"
#include "kvferry/status.h"

#include "bench/decode_shape.h"
#include "bench/decode_values.h"
#include "gpu/copy_batch.h"
#include "gpu/kernels/paged_decode.h"
#include "gpu/memory.h"
#include "gpu/stream.h"

namespace kvferry::bench {

// One plane behind the other, each [page][token][head][width]; a page is a block. Nothing knows
// whose a page is but its table of free ones.
//
// Move-only. Thread-compatible.
class DecodeMemory {
 public:
  // kResourceExhausted where the device has no room for so many pages.
  static Result<DecodeMemory> Create(gpu::Device& device,
                                     const DecodeShape& shape,
                                     std::uint32_t pages);

  // For RegisterTensors; borrows from this.
  DeviceTensors Describe() const;
  gpu::PagedSide SideOf(std::uint32_t plane) const;
  std::byte* PageAt(std::uint32_t plane, std::int32_t page) const {
    return planes_[plane] + static_cast<std::uint64_t>(page) * shape_.page_bytes();
  }

  std::uint32_t free_pages() const { return static_cast<std::uint32_t>(free_.size()); }
  // At most free_pages() of them.
  std::vector<std::int32_t> Take(std::uint32_t pages);
  void Give(std::span<const std::int32_t> pages);

 private:
  DecodeMemory(const DecodeShape& shape, std::uint32_t pages, gpu::DeviceBuffer buffer);

  DecodeShape shape_;
  std::uint32_t pages_;
  gpu::DeviceBuffer buffer_;
  std::vector<std::byte*> planes_;
  std::vector<std::int32_t> free_;
};

// Computes blocks of a session: in a server that is prefill, here their values are made on the
// host and copied. Waits for the copies.
//
// Move-only. Thread-compatible.
class BlockFeeder {
 public:
  static Result<BlockFeeder> Create(gpu::Device& device, const DecodeValues& values);

  // Blocks `first` and so on, one into each page.
  Status Feed(gpu::Stream& stream,
              const DecodeMemory& memory,
              std::uint32_t session,
              std::uint32_t first,
              std::span<const std::int32_t> pages);

 private:
  BlockFeeder(const DecodeValues& values, gpu::PinnedBuffer buffer)
      : values_(&values), buffer_(std::move(buffer)), copies_(values.shape().planes()) {}

  const DecodeValues* values_;
  gpu::PinnedBuffer buffer_;  // Of one block.
  gpu::CopyBatch copies_;
};

}  // namespace kvferry::bench
