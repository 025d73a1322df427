// Addresses of planes and pages, and blocks made on the host.
#include "bench/decode_memory.h"

#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace kvferry::bench {

Result<DecodeMemory> DecodeMemory::Create(gpu::Device& device,
                                          const DecodeShape& shape,
                                          std::uint32_t pages) {
  const std::uint64_t size_bytes = pages * shape.block_bytes();
  Result<gpu::DeviceBuffer> buffer = gpu::DeviceBuffer::Create(device, size_bytes);
  if (!buffer.ok()) {
    return buffer.error().WithContext("tensors of " + std::to_string(pages) + " blocks, " +
                                      FormatBytes(size_bytes));
  }
  return DecodeMemory(shape, pages, std::move(*buffer));
}

DecodeMemory::DecodeMemory(const DecodeShape& shape, std::uint32_t pages, gpu::DeviceBuffer buffer)
    : shape_(shape), pages_(pages), buffer_(std::move(buffer)) {
  for (std::uint32_t plane = 0; plane < shape.planes(); ++plane) {
    planes_.push_back(buffer_.data() + std::uint64_t{plane} * pages * shape.page_bytes());
  }
  for (std::uint32_t page = pages; page > 0; --page) {
    free_.push_back(static_cast<std::int32_t>(page - 1));
  }
}

DeviceTensors DecodeMemory::Describe() const {
  DeviceTensors tensors;
  tensors.planes = planes_;
  tensors.layers = shape_.layers;
  tensors.page_step_bytes = shape_.page_bytes();
  tensors.token_step_bytes = shape_.token_bytes();
  tensors.head_step_bytes = shape_.row_bytes();
  tensors.pages = pages_;
  tensors.page_tokens = shape_.block_tokens;
  tensors.heads = shape_.kv_heads;
  tensors.row_bytes = Narrow<std::uint32_t>(shape_.row_bytes());
  tensors.block_tokens = shape_.block_tokens;
  return tensors;
}

gpu::PagedSide DecodeMemory::SideOf(std::uint32_t plane) const {
  gpu::PagedSide side;
  side.pages = planes_[plane];
  side.head_step = shape_.key_width;
  side.token_step = side.head_step * shape_.kv_heads;
  side.page_step = side.token_step * shape_.block_tokens;
  return side;
}

std::vector<std::int32_t> DecodeMemory::Take(std::uint32_t pages) {
  KVFERRY_CHECK(pages <= free_.size());
  std::vector<std::int32_t> taken;
  for (std::uint32_t i = 0; i < pages; ++i) {
    taken.push_back(free_.back());
    free_.pop_back();
  }
  return taken;
}

void DecodeMemory::Give(std::span<const std::int32_t> pages) {
  free_.insert(free_.end(), pages.begin(), pages.end());
}

Result<BlockFeeder> BlockFeeder::Create(gpu::Device& device, const DecodeValues& values) {
  KVFERRY_ASSIGN_OR_RETURN(gpu::PinnedBuffer buffer,
                           gpu::PinnedBuffer::Create(device, values.shape().block_bytes()));
  return BlockFeeder(values, std::move(buffer));
}

Status BlockFeeder::Feed(gpu::Stream& stream,
                         const DecodeMemory& memory,
                         std::uint32_t session,
                         std::uint32_t first,
                         std::span<const std::int32_t> pages) {
  const DecodeShape& shape = values_->shape();
  const std::size_t page_bytes = shape.page_bytes();
  for (std::uint32_t i = 0; i < pages.size(); ++i) {
    for (std::uint32_t plane = 0; plane < shape.planes(); ++plane) {
      std::byte* const made = buffer_.bytes().data() + plane * page_bytes;
      values_->WriteTokens({.session = session,
                            .layer = plane / shape.planes_per_layer(),
                            .plane = plane % shape.planes_per_layer(),
                            .token = (first + i) * shape.block_tokens},
                           {reinterpret_cast<BFloat16*>(made), page_bytes / sizeof(BFloat16)});
      copies_.Add(memory.PageAt(plane, pages[i]), made, page_bytes);
    }
    KVFERRY_RETURN_IF_ERROR(copies_.Submit(stream));
    KVFERRY_RETURN_IF_ERROR(stream.Synchronize());  // The buffer is written again.
  }
  return Status::Ok();
}

}  // namespace kvferry::bench
